"""One run of an ablation: `reason ablate` starts `python -m reason.cli.cell FOLDER RUN`, a process for each run."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from reason.ablation.queue import alone
from reason.ablation.study import SPEC, Ablation, Cell
from reason.cli import guarded
from reason.config.overrides import derive, override, read_config
from reason.files import read_json
from reason.runs.build import resume, start
from reason.runs.evaluation import evaluate_run


def work(folder: Path, name: str) -> int:
    """Begin a run or go on with it, then evaluate it; returns the exit status, errors printed in one line."""
    return guarded(lambda _: _worked(folder, name), [])


def _worked(folder: Path, name: str) -> int:
    ablation = Ablation.model_validate(read_json(folder / SPEC))
    cell = next(cell for cell in ablation.cells(folder) if cell.run.name == name)
    with alone(cell.run):
        if not cell.trained():
            _train(cell, make_data="data.directory" not in ablation.shared)
        if cell.trained():  # else it was stopped
            own = read_config(cell.run / "config.json")
            config = override(own, ablation.evaluation)
            for evaluation, directory in cell.missing(ablation).items():
                read = config if directory is None else derive(config, {"data.directory": directory})
                evaluate_run(cell.run, read, evaluation)
    return 0


def _train(cell: Cell, make_data: bool) -> None:
    with contextlib.ExitStack() as held:
        if (cell.run / "config.json").exists():
            trainer = resume(cell.run, {}, held)
        else:
            trainer = start(cell.config, cell.run, held, make_data=make_data)
        trainer.train()


if __name__ == "__main__":
    sys.exit(guarded(lambda words: _worked(Path(words[0]), words[1]), sys.argv[1:]))
