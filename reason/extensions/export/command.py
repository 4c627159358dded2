"""reason export: writes the model of a run as a folder with weights and card, or as ONNX graphs."""

from __future__ import annotations

from pathlib import Path

from datasets_gen.typed import Parser, quoted, typed
from reason.config.describe import refuse_unreadable
from reason.config.overrides import override, split_arguments
from reason.errors import ConfigError
from reason.extensions.export.model import STORED, export_run
from reason.files import readable_size
from reason.report.section import share, shown_steps
from reason.runs.directory import run_and_config

EXPORT = """Export a model, to share it: the weights of a run's newest checkpoint, without the state of training, and a
model card (card.json, README.md) with its data, seed, command, and accuracy by supervision step.

  reason export runs/mine models/mine                        evaluated on the test split of the run's sets
  reason export runs/maze models/maze data=data/maze-10x10,data/maze-20x20 steps=64 --stored fp16
  reason export runs/mine models/mine evaluation.checkpoint=best evaluation.limit=1000

Commands read the folder like a run: reason solve models/mine PUZZLE, python evaluate.py models/mine. With --stored fp16
or bf16 the file has half the size, and the card states the accuracy with the rounded weights. The commands in the card
name data sets as data/SET. To continue the training, use `reason pack` instead. The Hugging Face hub takes the folder:
hf upload you/mine models/mine; commands then read hf:you/mine.

  reason export runs/mine --onnx                             mine-onnx/: two ONNX graphs in float32, without torch
  reason export maze models/maze-onnx --onnx data=data/maze-20x20

The graphs are compared with torch on 20 puzzles; card.json has the result, docs/export.md ten lines of Python
that solve a puzzle. Needs onnx, onnxscript and onnxruntime: pip install 'recursive-reasoners[onnx]'."""


def export(argv: list[str]) -> int:
    """Export the model of a run; return the exit status."""
    parser = Parser(prog="reason export", description=EXPORT)
    parser.add_argument("words", nargs="+", metavar="RUN OUT | data=DIR,DIR | steps=T | section.key=value")
    parser.add_argument("--stored", choices=STORED, default="fp32", help="type of the weights in the file")
    parser.add_argument("--onnx", action="store_true", help="write ONNX graphs instead of a folder with weights")
    arguments = parser.parse_intermixed_args(argv)
    words, pairs = split_arguments(arguments.words, {"data": "data.directory", "steps": "evaluation.steps"})
    if arguments.onnx and len(words) == 1:
        words.append(f"{Path(words[0]).resolve().name}-onnx")
    if len(words) != 2:
        got = " ".join(words) or "none"
        raise ConfigError(f"a run and a folder to write are needed, got {got}; as in: reason export runs/mine mine")
    out = Path(words[1])
    sets = [name.strip() for name in pairs.pop("data.directory", "").split(",") if name.strip()]
    run, trained = run_and_config(words[0])
    config = override(trained, pairs)
    refuse_unreadable(pairs)  # also typed values that equal those of the run
    if arguments.onnx:
        if arguments.stored != "fp32":
            raise ConfigError(f"--stored {arguments.stored}: the graphs of --onnx are float32; leave it out")
        from reason.extensions.export.onnx import export_onnx  # seconds

        onnx = export_onnx(run, out, config, sets)
        checked = onnx["checked"]
        print(f"{out}: {onnx['parameters']:,} parameters, opset {onnx['opset']}, float32")
        print(
            f"{checked['equal']:,} of {checked['answers']:,} answers equal torch's ({checked['puzzles']} puzzles, "
            f"{checked['of']}, {checked['steps']} steps); a step's logits differ by "
            f"{checked['largest_relative_difference']:.1e} at most, relative"
        )
        return 0
    card = export_run(run, out, config, arguments.stored, sets)
    print(f"{out}: {card['parameters']:,} parameters of step {card['step']:,}, {readable_size(card['bytes'])}")
    for one in card["evaluations"]:
        exact = one["exact_by_step"]
        steps = shown_steps(one["steps"], card["trained_steps"])
        shares = ", ".join(f"{share(exact[step - 1])} at step {step}" for step in steps)
        print(f"{one['set']}, n {one['puzzles']:,}: exact {shares}")
    print(typed(f"next: python evaluate.py {quoted(out)}"))
    return 0
