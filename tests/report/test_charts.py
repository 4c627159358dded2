"""What charts draw: values, scales, intervals and labels, read back from their axes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from PIL import Image

from reason.evaluation.studies.by_step import BY_STEP
from reason.evaluation.studies.training import TRAINING
from reason.report.chart import Chart, save_png, svg
from reason.report.compare import charts as compared_charts
from reason.report.compare import letter


@pytest.fixture
def axes() -> Iterator[Axes]:
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def lines(axes: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labelled lines: x and y."""
    found = {str(line.get_label()): line.get_data() for line in axes.get_lines()}
    return {label: (np.asarray(x, float), np.asarray(y, float)) for label, (x, y) in found.items() if label[:1] != "_"}


def test_accuracy_is_drawn_plain_and_as_an_error(whole: dict, axes: Axes) -> None:
    results = whole | {"exact_by_step": [0.25, 0.5, 0.75, 11 / 12, 1.0]}
    curve, error = BY_STEP.charts["accuracy_by_step"](results)
    curve.draw(axes)
    assert lines(axes)["exact"][1].tolist() == results["exact_by_step"]
    assert lines(axes)["cells"][1].tolist() == results["cell_by_step"]
    assert axes.get_yscale() == "linear"
    axes.clear()
    error.draw(axes)
    assert axes.get_yscale() == "log"
    drawn = lines(axes)["exact"][1]
    assert drawn[:4] == pytest.approx(1 - np.array(results["exact_by_step"][:4]))
    assert drawn[4] == 0.5 / results["puzzles"]  # none is wrong: below one puzzle
    axes.figure.canvas.draw()
    ticks = [text.get_text() for text in axes.get_yticklabels()]
    assert "10%" in ticks
    assert "100%" in ticks


def test_the_training_curve_is_that_of_the_metrics(whole: dict, axes: Axes) -> None:
    loss, exact = TRAINING.charts["training"](whole)
    loss.draw(axes)
    assert axes.get_yscale() == "log"
    assert axes.get_lines()[0].get_xydata().tolist() == whole["training"]["loss"]  # type: ignore[union-attr]
    axes.clear()
    exact.draw(axes)
    assert {label: y.tolist() for label, (_, y) in lines(axes).items()} == {"training": [0.25], "validation": [0, 0.5]}
    assert "0.5 at step 4" in loss.says
    assert exact.says == "training 25.0% at step 4, 25.0% at step 4; validation 0.0% at step 2, 50.0% at step 4"


def test_a_png_holds_all_charts_of_a_plot(tmp_path: Path) -> None:
    charts = [Chart("a", "nothing", lambda axes: None) for _ in range(3)]
    save_png(charts, tmp_path / "three.png")
    with Image.open(tmp_path / "three.png") as picture:
        assert picture.size == (round(2 * 4.6 * 150), round(2 * 3.2 * 150))


def test_no_text_of_a_chart_is_mathematics() -> None:
    """Names of runs hold $ and _, and ticks of logarithms are not left as TeX."""

    def draw(axes: Axes) -> None:
        axes.plot([1, 2], [1e-9, 1], label="a$b_{c}$")
        axes.legend()

    assert "a$b_{c}$" in svg(Chart("t", "s", draw))


def test_a_curve_of_many_runs_has_a_label_for_each(whole: dict, axes: Axes) -> None:
    curves, _ = compared_charts([whole | {"run": f"r{i}"} for i in range(30)])
    curves.draw(axes)
    assert lines(axes).keys() == {letter(i) for i in range(30)}
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]


def test_error_of_one_puzzle(whole: dict, axes: Axes) -> None:
    results: dict[str, Any] = whole | {"puzzles": 1, "exact_by_step": [0.0, 0.0, 1.0, 1.0, 1.0]}
    BY_STEP.charts["accuracy_by_step"](results)[1].draw(axes)
    assert lines(axes)["exact"][1].tolist() == [1, 1, 0.5, 0.5, 0.5]
