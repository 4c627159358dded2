"""Small models, and evaluations of them, for several test files."""

from typing import Any

import torch

from reason.context import Context
from reason.data import PuzzleData
from reason.evaluation.config import EvaluationConfig
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.suite import consumers_of
from reason.models import RecursiveConfig, Shape, build_model
from reason.models.base import Batch


def evaluator_of(model: Any, data: PuzzleData, steps: int, batch_size: int, **changes: Any) -> Evaluator:
    settings = EvaluationConfig(steps=steps, batch_size=batch_size, **changes)
    return Evaluator(model, data, settings, trained_steps=3, progress=False)


def read(*arguments: Any, **changes: Any) -> dict[str, Any]:
    evaluator = evaluator_of(*arguments, **changes)
    return evaluate(evaluator, consumers_of(evaluator))


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
