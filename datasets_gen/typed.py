"""Commands as they can be typed where they are printed."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = {"python train.py": "reason train", "python evaluate.py": "reason evaluate"}


def typed(text: str) -> str:
    """A text whose commands are the scripts of a checkout: of `reason` itself where it runs outside of one."""
    called = Path(sys.argv[0])
    if "reason" not in (called.stem, called.parent.name) or Path("train.py").is_file():
        return text
    for script, command in SCRIPTS.items():
        text = text.replace(script, command)
    return text
