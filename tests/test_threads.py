"""Threads wait without spinning, unless the user sets otherwise."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' OpenMP does not print its settings so")
@pytest.mark.parametrize(
    ("words", "own", "policy"),
    [
        (["evaluate.py", "nowhere"], {}, "PASSIVE"),
        pytest.param(
            ["-m", "reason", "evaluate", "nowhere"], {"OMP_WAIT_POLICY": "active"}, "ACTIVE", marks=pytest.mark.slow
        ),
        pytest.param(["-c", "import reason; reason.load"], {}, "PASSIVE", marks=pytest.mark.slow),
    ],
)
def test_the_policy_is_set_before_torch_reads_it(words: list[str], own: dict[str, str], policy: str) -> None:
    others = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
    found = subprocess.run(
        [sys.executable, *words],
        env=others | own | {"OMP_DISPLAY_ENV": "true"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert re.findall(r"OMP_WAIT_POLICY = '(\w+)'", found.stderr) == [policy]
