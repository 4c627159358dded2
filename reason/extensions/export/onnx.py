"""Exports a trained model as two ONNX graphs, which ONNX Runtime computes without torch, also in a browser.

    start.onnx   tokens (, identifiers)        ->  x, and the first state unless it is drawn
    step.onnx    x, the state (, constraints)  ->  logits (, halt), the next state: one supervision step

float32. The batch is dynamic; so are rows and columns if cells see only their neighbours (mixer local). card.json
names the inputs and outputs, and the difference of the graphs from torch. docs/export.md has the Python code that
solves a puzzle with them.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from datasets_gen.layout import splits_of
from reason.config.describe import halting_read
from reason.config.overrides import derive
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.models.base import Batch, Context, Reasoner, Shape
from reason.models.layout import IMPOSSIBLE, LayoutModel
from reason.pretrained import CARD
from reason.rollout import exact_logit, unroll
from reason.runs.directory import accept_shape, load_run, read_record
from reason.runs.folders import new_path
from reason.settings.rollout import Halting
from reason.training.accelerate import fused
from reason.training.generators import seeded
from reason.version import __version__

OPSET = 20
PUZZLES = 20  # puzzles of the comparison with torch
TOLERANCE = 1e-4  # largest difference of logits of a step, relative to the largest logit
RELATION = "relation_"  # prefix of an input of constraints, before the relation's number
NEXT = "next_"  # prefix of a part of the state that a step returns
CPU = torch.device("cpu")


class Traced(nn.Module):
    """A model for both graphs. If rows and columns are dynamic, its tensors are (B, rows, columns, D)."""

    def __init__(self, model: Reasoner, halting: Halting | None, puzzles: Batch):
        """Take the shape and the constraints of puzzles."""
        super().__init__()
        self.model, self.halting, self.shape = model, halting, puzzles.shape or model.shape
        self.none = tuple(torch.full_like(each[:1], -1) for each in puzzles.relations)  # no instances
        relations = zip(self.shape.structure.relations, self.none, strict=False)
        self.constrained = [i for i, (relation, rows) in enumerate(relations) if relation.seen and rows.shape[1]]
        context = model.encode(self.batch(torch.zeros(1, self.shape.seq_len, dtype=torch.int64)))
        state = model.initial_state(context)
        self.kind, self.names = type(state), list(state._fields)
        self.identified = isinstance(model, LayoutModel) and getattr(model.config, "puzzle_emb_len", 0) > 0
        self.halts = exact_logit(model.readout(state, context), halting) is not None
        self.sized = isinstance(model, LayoutModel) and getattr(model.config, "mixer", None) == "local"
        self.layout, self.masks = context.layout, context.mask is not None
        if self.sized:
            model.layout_of = lambda tokens, shape=None: self.layout  # type: ignore[assignment]

    def batch(self, tokens: Tensor, identifiers: Tensor | None = None) -> Batch:
        """Make a batch of puzzles without constraints of their own."""
        relations = tuple(each.expand(tokens.shape[0], -1, -1) for each in self.none)
        return batch_of(tokens, identifiers, relations, self.shape)

    def flat(self, tensor: Tensor) -> Tensor:
        """Return a tensor in shape (B, S, …), and pass the board's rows and columns to the layout."""
        if not self.sized:
            return tensor
        self.layout.grid = tuple(tensor.shape[1:3])  # type: ignore[union-attr]
        return tensor.flatten(1, 2)

    def shaped(self, tensor: Tensor, like: Tensor) -> Tensor:
        """Return a tensor (B, S, …) in the shape of a board; a copy, since graphs share no outputs."""
        return (tensor.unflatten(1, like.shape[1:3]) if self.sized else tensor).clone()

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Map tokens (and identifiers) to x and the first state, or x, a state (and relations) to a step's outputs."""
        first, *others = tensors
        if not first.is_floating_point():
            context = self.model.encode(self.batch(self.flat(first), *others))
            state = () if self.model.random_start else self.model.initial_state(context)
            return tuple(self.shaped(each, first) for each in (context.x, *state))
        x = self.flat(first)
        mask = x.abs().amax(-1, keepdim=True).ne(0).to(x.dtype) if self.masks else None  # it is 0 where x̂ is 0
        state, given = others[: len(self.names)], others[len(self.names) :]
        relations = list(self.none)
        for index, rows in zip(self.constrained, given, strict=True):
            relations[index] = rows
        context = Context(x, mask, layout=self.layout, relations=tuple(relations))
        after = self.model.step(self.kind(*map(self.flat, state)), context)
        readout = self.model.readout(after, context)
        halt = exact_logit(readout, self.halting)
        boards = [self.shaped(each, first) for each in (readout.logits, *after)]
        return (boards[0], *([] if halt is None else [halt]), *boards[1:])


def batch_of(
    tokens: Tensor,
    identifiers: Tensor | None = None,
    relations: tuple[Tensor, ...] = (),
    shape: Shape | None = None,
) -> Batch:
    """Make a batch of puzzles without labels."""
    identifiers = tokens.new_zeros(tokens.shape[0]) if identifiers is None else identifiers
    return Batch(tokens, tokens, identifiers, relations, shape)


def number_of(name: str) -> int:
    """Return the number of the relation whose instances an input of `step.onnx` takes."""
    return int(name.removeprefix(RELATION))


def export_onnx(run: Path, out: Path, config: Config, sets: Sequence[str] = ()) -> dict[str, Any]:
    """Write the folder `out` atomically, with two graphs and card.json; returns the card.

    sets: puzzles of the comparison with torch; by default those that the run was trained on, if they exist, else random
    tokens.

    Raises:
        ConfigError: a package is missing, the model cannot be exported, or the graphs and torch give other answers.
    """
    versions = {name: package(name).__version__ for name in ("torch", "onnx", "onnxscript", "onnxruntime")}
    plain: dict[str, object] = {"training.precision": "fp32"}
    if fused(config.model):
        plain["model.fused"] = False  # a kernel cannot be traced
    model = load_run(run, CPU, derive(config, plain), config.evaluation.weights).model
    steps = config.evaluation.steps or config.rollout.trained_steps
    puzzles, source, task = _puzzles(model, sets or config.data.directories, config.seed)
    tokens = puzzles.inputs
    expected = torch_answers(model, puzzles, steps, config.seed)
    traced = Traced(model.requires_grad_(False), halting_read(config), puzzles)
    drawn = traced.names if model.random_start else []
    first = [name for name in traced.names if name not in drawn]
    constraints = {f"{RELATION}{index}": list(puzzles.relations[index].shape[1:]) for index in traced.constrained}
    halt, following = ["halt"] * traced.halts, [NEXT + name for name in traced.names]
    card: dict[str, Any] = {
        "name": out.name,
        "task": task or read_record(run)["task"],
        "shape": traced.shape.model_dump(mode="json"),
        "any_size": traced.sized,
        "parameters": model.parameter_count(),
        "trained_steps": steps,
        "seed": config.seed,
        "state": traced.names,
        "drawn": drawn,
        "graphs": {
            "start": {"inputs": ["tokens", *["identifiers"] * traced.identified], "outputs": ["x", *first]},
            "step": {"inputs": ["x", *traced.names, *constraints], "outputs": ["logits", *halt, *following]},
        },
        "constraints": constraints,
        "opset": OPSET,
        "version": __version__,
        "packages": versions,
    }
    with new_path(out, "type another folder, or remove it") as folder:
        folder.mkdir()
        _write(traced, folder, card["graphs"], run)
        difference, equal = compared(onnx_logits(folder, card, puzzles, expected.before), expected.logits)
        if not difference <= TOLERANCE:  # or NaN
            raise ConfigError(
                f"{run} cannot become ONNX graphs: a step differs from torch's by {difference:.1e}, relative (noise in "
                "evaluation, or a readout that depends on the step)"
            )
        card["checked"] = {
            "puzzles": len(tokens),
            "of": source,
            "steps": steps,
            "largest_relative_difference": difference,
            "answers": steps * len(tokens),
            "equal": equal,
        }
        (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    return card


def package(name: str) -> Any:
    """Import a package of the extra `onnx`.

    Raises:
        ConfigError: it is missing.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ConfigError(f"ONNX graphs need {name} of the extra: pip install 'recursive-reasoners[onnx]'") from None


def unseen_of(sets: Sequence[str]) -> PuzzleData | None:
    """Return the test split, or without one the first, of the first set that exists."""
    for directory in map(Path, sets):
        if splits := splits_of(directory):
            return PuzzleData(directory, "test" if "test" in splits else splits[0])
    return None


def _puzzles(model: Reasoner, sets: Sequence[str], seed: int) -> tuple[Batch, str, Mapping[str, Any] | None]:
    """Return N puzzles for the comparison, with the constraints that the model reads, their source and their task."""
    constrained = isinstance(model, LayoutModel) and any(each.constraints is not None for each in model.layouts)
    if (data := unseen_of(sets)) is not None:
        accept_shape(model, data.shape, data.directory, data.directory)
        source, batch = f"{data.directory.name}, {data.split} split", data.take(torch.arange(min(PUZZLES, len(data))))
        if not constrained:
            return batch_of(batch.inputs), source, None
        relations = tuple(each.long() for each in batch.relations)
        return batch_of(batch.inputs, None, relations, data.shape), source, data.metadata.task
    if constrained and any(not each.instances for each in model.shape.structure.relations):
        raise ConfigError("the graphs take as many constraints as puzzles of a set have: add data=DIR")
    generator, shape = torch.Generator().manual_seed(seed), (PUZZLES, model.shape.seq_len)
    return batch_of(torch.randint(model.shape.vocab_size, shape, generator=generator)), "tokens drawn at random", None


class Answers(NamedTuple):
    """The outputs of N puzzles after each of T steps, and the states before each."""

    logits: np.ndarray  # (T, N, S, V)
    before: list[dict[str, np.ndarray]]


@torch.inference_mode()
def torch_answers(model: Reasoner, puzzles: Batch, steps: int, seed: int) -> Answers:
    """Compute the outputs by torch, in float32."""
    with seeded(seed, CPU):
        records = list(unroll(model.eval(), puzzles, steps))
    before = [{name: z.numpy() for name, z in record.before._asdict().items()} for record in records]
    return Answers(torch.stack([record.logits for record in records]).numpy(), before)


def onnx_logits(
    folder: Path, card: Mapping[str, Any], puzzles: Batch, before: Sequence[Mapping[str, np.ndarray]]
) -> np.ndarray:
    """Compute logits (T, N, S, V) by ONNX Runtime: step 1 from its first state, each later one from torch's.

    This measures the rounding of a step, not its growth in an unstable model in T steps.
    """
    runtime = package("onnxruntime")
    start, step = (runtime.InferenceSession(folder / f"{name}.onnx") for name in ("start", "step"))
    tokens = puzzles.inputs
    board = tuple(card["shape"]["structure"]["grid"] if card["any_size"] else tokens.shape[1:])
    given = {"tokens": tokens.unflatten(1, board), "identifiers": tokens.new_zeros(len(tokens))}
    state = _run(start, {name: given[name].numpy() for name in card["graphs"]["start"]["inputs"]})
    logits = []
    for m, states in enumerate(before):
        names = card["state"] if m else card["drawn"]
        state |= {name: states[name].reshape(state["x"].shape) for name in names}
        state |= {name: puzzles.relations[number_of(name)].numpy() for name in card["constraints"]}
        logits.append(_run(step, state)["logits"])
    return np.stack(logits).reshape(len(before), *tokens.shape, -1)


def compared(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, int]:
    """Return the largest difference of logits (T, N, S, V), relative to the largest, and the number of equal answers.

    Logits of tokens other than symbols are ignored.
    """
    possible = theirs > IMPOSSIBLE
    if not possible.any():
        return math.nan, 0
    difference = np.abs(ours - theirs)[possible].max() / np.abs(theirs[possible]).max()
    return float(difference), int((ours.argmax(-1) == theirs.argmax(-1)).all(-1).sum())


def _run(session: Any, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(given)), strict=True))


def _write(traced: Traced, folder: Path, graphs: Mapping[str, Any], run: Path) -> None:
    """Write both graphs, with each array once and without paths of this machine.

    Raises:
        ConfigError: torch cannot export the model.
    """
    passes = package("onnx_ir").passes.common
    board = (5, 7) if traced.sized else (traced.shape.seq_len,)
    tokens = torch.zeros(2, *board, dtype=torch.int64)
    start = (tokens, *[torch.zeros(2, dtype=torch.int64)] * traced.identified)
    x = traced(*start)[0].contiguous()
    sizes = {0: torch.export.Dim("batch")}
    sizes |= {1: torch.export.Dim("rows"), 2: torch.export.Dim("columns")} if traced.sized else {}
    relations = [traced.none[index].repeat(2, 1, 1) for index in traced.constrained]
    step = (x, *(torch.zeros_like(x) for _ in traced.names), *relations)
    for name, example in (("start", start), ("step", step)):
        shapes = (tuple(sizes if each.ndim > 1 else {0: sizes[0]} for each in example),)
        level = logging.root.manager.disable
        logging.disable(logging.WARNING)  # of operators of packages that are not installed
        try:
            with warnings.catch_warnings(action="ignore"):
                program = torch.onnx.export(
                    traced, example, dynamo=True, opset_version=OPSET, input_names=graphs[name]["inputs"],
                    output_names=graphs[name]["outputs"], dynamic_shapes=shapes, verbose=False,
                )  # fmt: skip
            assert program is not None
        except Exception as error:  # the exporter raises many types
            message = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise ConfigError(f"{run} cannot become ONNX graphs: torch's exporter says {message}") from error
        finally:
            logging.disable(level)
        for clean in (passes.DeduplicateInitializersPass(size_limit=2**31), passes.ClearMetadataAndDocStringPass()):
            clean(program.model)
        program.save(folder / f"{name}.onnx")
