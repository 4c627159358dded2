"""What sharing keys and values between loops costs and saves (Ouro)."""

from __future__ import annotations

from typing import Any

import torch

from reason.data import PuzzleData
from reason.generation.decoding import answer
from reason.models import LoopedModel
from reason.nn.cache import Sharing

WAYS: tuple[tuple[Sharing, bool], ...] = (
    ("per-loop", False),
    *((sharing, keep_prompt) for keep_prompt in (False, True) for sharing in ("last", "mean", "first")),
)


@torch.inference_mode()
def cache_table(
    model: LoopedModel, data: PuzzleData, loops: int, batch_size: int, limit: int | None = None
) -> list[dict[str, Any]]:
    """One row for each way of sharing: exact, CE (nats, of the right token in the model's own history), bytes a text.

    `keep_prompt`: only what was said is shared, the prompt's keys and values are not. `bytes` are those of keys and
    values of prompt and answer at the end of a text; `prompt_bytes` those while the prompt is read, one set per loop in
    any case.
    """
    count = min(len(data), limit or len(data))
    rows = []
    for sharing, keep_prompt in WAYS:
        exact = loss = 0.0
        held = prompt = 0
        for first in range(0, count, batch_size):
            batch = data.take(torch.arange(first, min(first + batch_size, count), device=data.device))
            found = answer(model, batch, loops, sharing, keep_prompt)
            exact, loss = exact + found.exact.sum().item(), loss + found.loss.sum().item()
            held, prompt = held + found.cache_bytes, prompt + found.prompt_bytes
        rows.append(
            {
                "cache": sharing,
                "keep_prompt": keep_prompt,
                "exact": exact / count,
                "ce": loss / count,
                "bytes": held / count,
                "prompt_bytes": prompt / count,
            }
        )
    return rows
