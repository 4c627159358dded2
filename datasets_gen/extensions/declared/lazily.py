"""CPMpy, imported at the first use: sets are read and checked without it."""

from __future__ import annotations

import importlib
from typing import Any

from datasets_gen.layout import DatasetError

INSTALL = "pip install 'recursive-reasoners[puzzles]'"


class _Cpmpy:
    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("cpmpy")
            importlib.import_module("ortools")
        except ImportError as error:
            raise DatasetError(f"declared puzzles need CPMpy and OR-Tools ({error}): {INSTALL}") from None
        return getattr(module, name)


cp: Any = _Cpmpy()
