"""Which settings set configs apart, and the names that runs take from them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from reason.config.differences import differing, run_name
from reason.config.overrides import override
from reason.config.schema import Config
from reason.presets import preset
from reason.runs.directory import reserve_run
from reason.runs.folders import plain_name


def named(*words: str) -> str:
    base = preset("sudoku-6x6").config()
    return run_name(base, override(base, dict(word.split("=", 1) for word in words)))


@pytest.mark.parametrize(("words", "name"), [
    ([], "sudoku-6x6"),
    (["model.activation=tanh"], "sudoku-6x6.tanh"),
    (["optimizer.lr=3e-4", "model.l_cycles=7"], "sudoku-6x6.l_cycles7.lr0.0003"),  # in the order of the config
    (["model.l_cycles=7", "optimizer.lr=3e-4"], "sudoku-6x6.l_cycles7.lr0.0003"),
    (["ema.decay=none"], "sudoku-6x6.no-decay"),
    (["training.compile=auto"], "sudoku-6x6.compile-auto"),
    (["loss.weights.jsrr=0.1"], "sudoku-6x6.jsrr0.1"),
    (["data.directory=some/where/mine"], "sudoku-6x6.mine"),
    (["data.directory=another/sudoku-6x6"], "sudoku-6x6"),  # the preset's own set, elsewhere
    (["device=cpu", "training.log_every=3", "evaluation.steps=9", "training.tracker=tensorboard"], "sudoku-6x6"),
    (["data.directory=a b/$x y;z"], "sudoku-6x6.x-y-z"),
    (["model.l_cycles=3", "seed=0"], "sudoku-6x6"),  # as the preset has them
])  # fmt: skip
def test_names_say_what_differs_from_the_preset(words: list[str], name: str) -> None:
    assert named(*words) == name


def test_long_names_count_the_rest() -> None:
    words = ["model.hidden_size=64", "model.num_heads=2", "model.expansion=2", "training.batch_size=8"]
    words += ["training.steps=9", "model.h_cycles=5", "model.l_cycles=9", "seed=5", "rollout.supervision_steps=3"]
    name = named(*words)
    shown = name.removeprefix("sudoku-6x6.").split(".")
    assert len(".".join(shown)) <= 60
    assert shown[-1] == f"{len(words) - len(shown) + 1}-more"


@given(some.text(max_size=80).filter(lambda text: "," not in text and text.strip()), some.integers(0, 10**12))
def test_any_setting_gives_a_plain_name_that_a_command_line_takes(directory: str, seed: int) -> None:
    base = Config(name="mine")
    asked = base.model_copy(update={"seed": seed, "data": base.data.model_copy(update={"directory": directory})})
    name = run_name(base, asked)
    assert plain_name(name, "run") == name
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,70}", name)  # no '=', which would make a setting of it


def test_the_same_settings_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = named("model.activation=tanh")
    assert [reserve_run(name).name for _ in range(3)] == [f"sudoku-6x6.tanh-{n}" for n in (1, 2, 3)]
    assert reserve_run("sudoku-6x6").name == "sudoku-6x6-1"


def test_differences_of_several_configs() -> None:
    first = {"seed": 0, "model": {"kind": "a", "width": 1}, "loss": {"weights": {"lm": 1.0}}}
    second = {"seed": 0, "model": {"kind": "b", "height": 2}, "loss": {"weights": {"lm": 1.0, "q": None}}}
    assert differing([first, second, first]) == {
        "model.kind": ["a", "b", "a"],
        "model.width": [1, ..., 1],
        "loss.weights.q": [..., None, ...],
        "model.height": [..., 2, ...],
    }
    assert differing([first, first]) == differing([second]) == {}
