"""Small models, and evaluations of them, for several test files."""

from pathlib import Path
from typing import Any

import torch

from reason.data.puzzles import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.suite import consumers_of
from reason.models import RecursiveConfig, Shape, build_model
from reason.models.base import Batch, Context, ModelConfig

ABOUT = {  # what results.json says of a run
    "run": "runs <x> $a$", "preset": "p", "dataset": "data/set", "split": "test", "parameters": 10,
    "checkpoint_step": 4, "weights": "ema", "precision": "float32", "device": "cpu", "version": "0",
    "fingerprint": "f0",
}  # fmt: skip


def evaluator_of(
    model: Any, data: PuzzleData, steps: int, batch_size: int = 5, trained: int = 3, **changes: Any
) -> Evaluator:
    settings = EvaluationConfig(steps=steps, batch_size=batch_size, **changes)
    return Evaluator(model, data, settings, trained, progress=False)


def read(model: Any, data: PuzzleData, steps: int, batch_size: int = 5, trained: int = 3, **changes: Any) -> dict:
    """results.json of a model."""
    evaluator = evaluator_of(model, data, steps, batch_size, trained, **changes)
    return ABOUT | {"steps": steps, "trained_steps": trained} | evaluate(evaluator, consumers_of(evaluator))


def read_set(directory: Path, steps: int, config: ModelConfig | None = None, **changes: Any) -> dict:
    """results.json of the smallest model, or of another, of whose steps two are trained."""
    data = PuzzleData(directory, "test")
    torch.manual_seed(0)
    model = small(data.shape) if config is None else build_model(config, data.shape)
    return read(model, data, steps, trained=2, **changes)


def small(shape: Shape, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """The smallest recursive model: an MLP of 8 numbers a cell, one cycle of one call."""
    settings = {
        "hidden_size": 8, "num_heads": 1, "expansion": 1, "mixer": "mlp", "positions": "none", "puzzle_emb_len": 0,
        "h_cycles": 1, "l_cycles": 1,
    } | changes  # fmt: skip
    return build_model(RecursiveConfig(**settings), shape, dtype)


def random_batch(rows: int, cells: int, tokens: int) -> Batch:
    """Puzzles whose answer is the question, of one identifier."""
    inputs = torch.randint(0, tokens, (rows, cells))
    return Batch(inputs, inputs.clone(), torch.zeros(rows, dtype=torch.long))


def begun(model: Any, tokens: torch.Tensor) -> tuple[Any, Context]:
    """The initial state, and x̂, of puzzles whose answer is the question."""
    context = model.encode(Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long)))
    return model.initial_state(context), context


def shaken(model: Any) -> Any:
    """Away from the initial values at which gains, biases and zeros would hide their place."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def counting(model: Any) -> list[int]:
    """The rows of every step that the model takes from now on."""
    rows, step = [], model.step
    model.step = lambda state, context: rows.append(len(context.x)) or step(state, context)
    return rows
