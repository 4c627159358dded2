"""Courses of a learning rate and of a loss weight, against their formulas."""

import math

import pytest
from conftest import trainer_of
from hypothesis import given
from hypothesis import strategies as st

from reason.config.overrides import override
from reason.settings.schedules import ScheduleConfig
from reason.training.log import read_metrics


def course(schedule, steps=10):
    return [schedule.factor(step, steps) for step in range(steps)]


def test_constant_piecewise_cosine_and_exponential_courses():
    assert course(ScheduleConfig(warmup_steps=4)) == [0.25, 0.5, 0.75] + [1.0] * 7
    assert course(ScheduleConfig(points=((0, 0), (0.3, 1), (0.6, 0.5)))) == [0] * 3 + [1] * 3 + [0.5] * 4
    # From 1 at step 20 to 0.2 at step 60: (1 + cos 45°)/2 of the way up after a quarter of it.
    schedule = ScheduleConfig(kind="cosine", min_ratio=0.2, start=0.2, points=((0.6, 0.2),), warmup_steps=4)
    factors = [schedule.factor(step, 100) for step in (0, 4, 20, 30, 40, 60, 99)]
    assert factors == pytest.approx([0.25, 1, 1, 0.2 + 0.8 * (0.5 + math.sqrt(0.125)), 0.6, 0.2, 0.2])
    to_the_end = schedule.model_copy(update={"points": ()})
    assert to_the_end.factor(60, 100) == pytest.approx(0.6)
    # CMM table 6, last row: 1e-4 → 5e-5 over epochs 0 to 30,000 of 50,000, then 3e-5; an epoch is half a step here.
    schedule = ScheduleConfig(kind="exponential", min_ratio=0.5, points=((0.6, 0.3),))
    factors = [schedule.factor(step, 25_000) for step in (0, 7500, 14_999, 15_000, 24_999)]
    assert factors == pytest.approx([1, math.sqrt(0.5), 0.5, 0.3, 0.3], rel=1e-4)


@given(
    kind=st.sampled_from(["cosine", "exponential"]),
    warmup=st.integers(0, 30),
    floor=st.floats(0.01, 1),
    start=st.floats(0, 0.3),
    length=st.floats(0.01, 0.7),
)
def test_a_course_rises_once_and_then_never(kind, warmup, floor, start, length):
    points = ((start + length, floor),)
    schedule = ScheduleConfig(kind=kind, warmup_steps=warmup, min_ratio=floor, start=start, points=points)
    shares = course(schedule, 60)
    assert all(0 < share <= 1 for share in shares)
    assert shares[:warmup] == sorted(shares[:warmup])
    assert shares[warmup:] == sorted(shares[warmup:], reverse=True)


def test_a_term_that_enters_late_is_not_evaluated_before(tiny, tmp_path):
    """Steps 0 to 2 without the halting term: no key in the metrics; then with it, and `loss` holds both."""
    late = '{"q_halt": {"points": [[0,0],[0.5,0.4]]}}'
    config = override(tiny, {"loss.schedules": late, "training.log_every": "1"})
    trainer_of(config, tmp_path / "run").train()
    lines = read_metrics(tmp_path / "run")
    assert ["loss/q_halt" in line for line in lines] == [False] * 3 + [True] * 3
    assert lines[2]["loss"] == pytest.approx(lines[2]["loss/lm"])
    assert lines[3]["loss"] == pytest.approx(lines[3]["loss/lm"] + 0.4 * 0.5 * lines[3]["loss/q_halt"])
