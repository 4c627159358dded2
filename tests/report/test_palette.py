"""Colours: readable on their paper, and apart for readers who do not tell red from green."""

import itertools

import numpy as np
import pytest

from reason.report.palette import DARK, LIGHT, styled

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(a: str, b: str) -> float:
    """WCAG 2: (L1 + 0.05)/(L2 + 0.05) of relative luminances."""
    low, high = sorted(float(linear(colour) @ TO_XYZ[1]) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = np.cbrt(np.clip(TO_XYZ @ rgb / (TO_XYZ @ np.ones(3)), 0.008856, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable(scheme: dict[str, str]) -> None:
    """4.5:1, of everything that is written: text, labels of lines, wrong cells, also on changed and given ones."""
    written = [name for name in scheme if name.startswith(("--ink", "--soft", "--series", "--accent", "--wrong"))]
    for name, paper in itertools.product(written, ("--paper", "--card")):
        assert contrast(scheme[name], scheme[paper]) >= 4.5, (name, paper)
    for name, under in itertools.product(("--ink",), ("--changed", "--given")):
        assert contrast(scheme[name], scheme[under]) >= 4.5, (name, under)
    assert contrast(scheme["--wrong"], scheme["--given"]) >= 4.5


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("seen", [np.eye(3), DEUTERANOPIA], ids=["all", "deuteranopia"])
def test_the_first_four_lines_are_told_apart_by_colour(scheme: dict[str, str], seen: np.ndarray) -> None:
    """CIE76 distances of 15 and more, where 2.3 is just noticeable."""
    colours = [lab(np.clip(seen @ linear(scheme[f"--series-{i}"]), 0, 1)) for i in (1, 2, 3, 4)]
    for a, b in itertools.combinations(colours, 2):
        assert np.linalg.norm(a - b) >= 15


def test_lines_differ_in_more_than_colour() -> None:
    assert len({(line["marker"], line["linestyle"]) for line in map(styled, range(32))}) == 32
