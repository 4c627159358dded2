"""2,000 damaged sets, archives, checkpoints, configs, results and command lines: each works, or is refused in one line.

`pytest -m slow tests/fuzz/test_fuzz.py` prints the counts; `--fuzz-seed N` draws other cases. A fault is named with the
first case that showed it, and the whole list is the failure's message.
"""

from pathlib import Path

import pytest
from harness import Case, Tally, run_case
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from others import command_lines, generated_sets, results, sets, sources, weights
from trained import archives, checkpoints, configs, strange_folders
from world import make_world

pytestmark = pytest.mark.slow

FAMILIES: dict[str, tuple[st.SearchStrategy[Case], int]] = {
    "archives": (archives(), 300),
    "checkpoints": (checkpoints(), 300),
    "strange folders": (strange_folders(), 50),
    "configs": (configs(), 200),
    "sets": (sets(), 200),
    "sets of every family": (generated_sets(), 250),
    "sources": (sources(), 200),
    "command lines": (command_lines(), 200),
    "foreign weights": (weights(), 100),
    "results": (results(), 50),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The undamaged world, and what its run must come to."""
    folder = tmp_path_factory.mktemp("fuzz") / "world"
    return folder, make_world(folder)


def tally_of(cases: st.SearchStrategy[Case], count: int, number: int, world: tuple[Path, str]) -> Tally:
    """What came of `count` cases that the seed `number` draws."""
    folder, reference = world
    tally = Tally()

    @seed(number)
    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(cases)
    def every(case: Case) -> None:
        tally.add(case, *run_case(case, folder, folder.with_name("case"), reference))

    every()
    return tally


@pytest.mark.parametrize("family", FAMILIES)
def test_it_works_or_is_refused_in_one_line(
    family: str, world: tuple[Path, str], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = tally_of(*FAMILIES[family], request.config.getoption("--fuzz-seed"), world)
    with capsys.disabled():
        print(f"\n{family}: {tally}")
    assert not tally.faults, str(tally)
