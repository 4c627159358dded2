"""reason export: a run → a model to give away, its weights without the training and a card."""

from __future__ import annotations

from pathlib import Path

from datasets_gen.typed import Parser, quoted, typed
from reason.config.overrides import override, read_config, split_arguments
from reason.errors import ConfigError
from reason.machine.memory import readable_size
from reason.pretrained import find_run
from reason.pretrained.card import per_cent, shown_steps
from reason.runs.evaluation import refuse_unreadable
from reason.runs.export import STORED, export_run

DESCRIPTION = """Make a model to give away: the weights of a run's newest checkpoint, without the training, and a card
(card.json, README.md) with its data, seed, command, and accuracy by supervision step.

  reason export runs/mine models/mine                        evaluated on the test split of the run's own sets
  reason export runs/maze models/maze data=data/maze-10x10,data/maze-20x20 steps=64 --stored fp16
  reason export runs/mine models/mine evaluation.checkpoint=best evaluation.limit=1000

The folder is read as a run is: reason solve models/mine PUZZLE, python evaluate.py models/mine. With --stored fp16 or
bf16 the file has half the size, and the card states accuracy with the rounded weights and with those in float32. The
card's commands name sets as data/SET. `reason pack` is for going on with the training."""

SHORTCUTS = {"data": "data.directory", "steps": "evaluation.steps"}


def main(argv: list[str]) -> int:
    """Export; returns the exit status."""
    parser = Parser(prog="reason export", description=DESCRIPTION)
    parser.add_argument("words", nargs="+", metavar="RUN OUT | data=DIR,DIR | steps=T | section.key=value")
    parser.add_argument("--stored", choices=STORED, default="fp32", help="type of the weights in the file")
    arguments = parser.parse_intermixed_args(argv)
    words, pairs = split_arguments(arguments.words, SHORTCUTS)
    if len(words) != 2:
        raise ConfigError(f"a run and a folder to write are needed, got {' '.join(words) or 'none'}")
    run, out = find_run(words[0]), Path(words[1])
    sets = [name.strip() for name in pairs.pop("data.directory", "").split(",") if name.strip()]
    config = override(read_config(run / "config.json"), pairs)
    refuse_unreadable(pairs)
    card = export_run(run, out, config, arguments.stored, sets)
    print(f"{out}: {card['parameters']:,} parameters of step {card['step']:,}, {readable_size(card['bytes'])}")
    for one in card["evaluations"]:
        for what in ("exact_by_step", "exact_by_step_in_float32"):
            if what in one:
                shares = ", ".join(f"{per_cent(one[what][step - 1])} at step {step}" for step in shown_steps(card, one))
                how = " with float32 weights" if what.endswith("float32") else ""
                print(f"{one['set']}, n {one['puzzles']:,}{how}: exact {shares}")
    print(typed(f"next: python evaluate.py {quoted(out)}"))
    return 0
