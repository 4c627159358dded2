"""Cached decoding against reading the whole text anew, and each way of sharing against its definition."""

import pytest
import torch
from evaluators import shaken
from torch import Tensor

from reason.extensions.looped.cache import StackCache
from reason.extensions.looped.decoding import Caches, answer, generate
from reason.extensions.looped.layers import attend
from reason.extensions.looped.model import LoopedConfig, LoopedModel, LoopedState
from reason.models import Shape
from reason.models.base import IGNORE, Batch
from reason.rollout import unroll

SHAPE = Shape(seq_len=9, vocab_size=7)
KINDS = {
    "gpt": {},
    "llama pre": {"block": "llama", "norm": "rmsnorm", "norm_placement": "pre", "num_layers": 2},
    "everything": {"prelude": 1, "coda": 2, "input_injection": True, "inter_loop_norm": True, "damping": True},
    "final-only": {"norm_placement": "pre", "readout": "final-only", "final_from": 3, "gate": "position"},
}


def make(dtype: torch.dtype = torch.float32, **changes: object) -> LoopedModel:
    config = LoopedConfig(**{"hidden_size": 8, "num_heads": 2, "dropout": 0.3} | changes)
    return shaken(LoopedModel(config, SHAPE, dtype)).to(dtype).eval()


def anew(model: LoopedModel, tokens: Tensor, loops: int) -> Tensor:
    """Logits of the last cell, the whole text read without any cache."""
    whole = Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long))
    *_, last = unroll(model, whole, loops)
    return last.logits[:, -1].detach()


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("loops", [1, 3])
def test_cached_per_loop_is_uncached(changes: dict[str, object], loops: int) -> None:
    model = make(**changes)
    prompt = torch.randint(0, 7, (3, 4))
    found = generate(model, prompt, 5, loops, "per-loop")
    text = prompt
    for i in range(5):
        torch.testing.assert_close(found.logits[:, i], anew(model, text, loops), atol=1e-5, rtol=1e-5)
        assert torch.equal(found.tokens[:, i], found.logits[:, i].argmax(-1))
        text = torch.cat([text, found.tokens[:, i : i + 1]], dim=1)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3), (5,)])
def test_a_text_may_be_read_in_pieces(sizes: tuple[int, ...]) -> None:
    model = make(torch.float64, num_layers=2, coda=1)
    text = torch.randint(0, 7, (2, 5))
    caches = Caches(model, 3)
    said = [caches.read(piece).logits for piece in text.split(sizes, dim=1)]
    *_, last = unroll(model, Batch(text, text, torch.zeros(2, dtype=torch.long)), 3)
    torch.testing.assert_close(torch.cat(said, dim=1), last.logits)


def naive(model: LoopedModel, prompt: Tensor, count: int, loops: int, sharing: str, keep: bool) -> Tensor:
    """One row at a time, the block's layers by hand: keys and values of each past cell as `sharing` says."""
    blocks = list(model.block.blocks)
    said = []
    past: list[list[list[tuple[Tensor, Tensor]]]] = []  # [cell][layer][loop] -> keys and values (heads, d)

    def shared(by_loop: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        picked = {"last": by_loop[-1:], "first": by_loop[:1], "mean": by_loop}[sharing]
        return [tuple(torch.stack(part).mean(0) for part in zip(*picked, strict=True))] * loops  # type: ignore[list-item]

    # the prompt, without any cache: every cell's keys and values in every loop and layer
    context = model.encode_from(prompt[None], 0)
    z = context.x
    seen: list[list[list[tuple[Tensor, Tensor]]]] = [[[] for _ in blocks] for _ in range(len(prompt))]
    for _ in range(loops):
        for layer, block in enumerate(blocks):
            k, v = keys_values(block, z)
            for cell in range(len(prompt)):
                seen[cell][layer].append((k[:, cell], v[:, cell]))
            z = block(z)
    past = seen if keep else [[shared(layer) for layer in cell] for cell in seen]
    said.append(model.readout(LoopedState(z), context).logits[0, -1])
    for i in range(count - 1):
        context = model.encode_from(said[-1].argmax().view(1, 1), len(prompt) + i)
        z = context.x
        mine: list[list[tuple[Tensor, Tensor]]] = [[] for _ in blocks]
        for loop in range(loops):
            for layer, block in enumerate(blocks):
                own = tuple(t[:, 0] for t in keys_values(block, z))
                mine[layer].append(own)
                keys, values = (
                    torch.stack([*(cell[layer][loop][j] for cell in past), own[j]], dim=1)[None] for j in range(2)
                )
                z = block(z, recall=lambda k, v, keys=keys, values=values: (keys, values))
        past.append([shared(layer) for layer in mine])
        said.append(model.readout(LoopedState(z), context).logits[0, -1])
    return torch.stack(said)


def keys_values(block: torch.nn.Module, z: Tensor) -> tuple[Tensor, Tensor]:
    """(heads, cells, d) each."""
    h = block.attention_half.argument(z)
    cells, width = h.shape[1:]
    heads = block.attention.num_heads
    _, k, v = block.attention.qkv(h).view(cells, 3, heads, width // heads).permute(1, 2, 0, 3)
    return k, v


@torch.no_grad()
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("sharing", ["last", "mean", "first"])
def test_a_shared_cache_is_what_its_name_says(sharing: str, keep: bool) -> None:
    model = make(torch.float64, num_layers=2)
    prompt = torch.randint(0, 7, (2, 3))
    found = generate(model, prompt, 4, 3, sharing, keep)
    for row in range(2):
        expected = naive(model, prompt[row], 4, 3, sharing, keep)
        torch.testing.assert_close(found.logits[row], expected, atol=1e-10, rtol=1e-10)
    exact = generate(model, prompt, 4, 3, "per-loop")
    torch.testing.assert_close(found.logits[:, 0], exact.logits[:, 0])  # the prompt is read loop by loop
    assert torch.allclose(found.logits[:, 1], exact.logits[:, 1]) == keep  # nothing said is shared yet
    assert not torch.allclose(found.logits[:, 2], exact.logits[:, 2])


def test_one_loop_shares_with_nobody() -> None:
    model, prompt = make(torch.float64), torch.randint(0, 7, (2, 3))
    alone = generate(model, prompt, 4, 1, "per-loop").logits
    for sharing in ("last", "mean", "first"):
        torch.testing.assert_close(generate(model, prompt, 4, 1, sharing).logits, alone)


def test_memory_is_told() -> None:
    """Two numbers a cell, layer and loop of width D: float32 for 2 rows, 4 cells of prompt, 8 at the end."""
    model, prompt = make(num_layers=2, coda=1), torch.randint(0, 7, (2, 4))
    per_cell = 2 * 2 * 8 * 4  # rows, keys and values, D, bytes
    for sharing, slots in (("per-loop", 3), ("last", 1), ("mean", 1), ("first", 1)):
        found = generate(model, prompt, 5, 3, sharing)
        assert found.prompt_bytes == per_cell * 4 * (3 * 2 + 1)
        assert found.cache_bytes == per_cell * 8 * (slots * 2 + 1)
    kept = generate(model, prompt, 5, 3, "mean", keep_prompt=True)
    assert kept.cache_bytes == per_cell * (4 * 3 * 2 + 4 * 2 + 8)


def test_queries_are_the_last_cells() -> None:
    q, k, v = torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        a, b, c = q.to(dtype), k.to(dtype), v.to(dtype)
        whole = attend(a, b, c, causal=True)
        torch.testing.assert_close(attend(a[:, :, 4:], b, c, causal=True), whole[:, :, 4:], atol=tolerance, rtol=0)


def test_a_cell_is_kept_after_all_loops() -> None:
    cache = StackCache(num_layers=1, loops=2)
    cache.recalls(0)[0](torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
    with pytest.raises(AssertionError, match="every loop"):
        cache.commit()


def test_answers_are_held_against_the_labels() -> None:
    """Rows of two prompt lengths; greedy exactness is teacher-forced exactness, since the first miss ends both."""
    torch.manual_seed(1)
    model = make()
    inputs = torch.randint(0, 7, (8, 9))
    labels = torch.full((8, 9), IGNORE)
    for row in range(8):  # some rows are labelled with what the model says itself
        start = 4 if row % 2 else 6
        said = generate(model, inputs[row : row + 1, : start + 1], 3, 3).tokens[0]
        labels[row, start : start + 3] = said if row < 5 else (said + 1) % 7
        inputs[row, start + 1 : start + 3] = labels[row, start : start + 2]
    batch = Batch(inputs, labels, torch.zeros(8, dtype=torch.long))
    *_, last = unroll(model, batch, 3)
    found = answer(model, batch, 3, "per-loop")
    assert torch.equal(found.exact, last.exact)
    assert last.exact.tolist() == [True] * 5 + [False] * 3
    assert found.loss.isfinite().all()
    anew = answer(model, batch, 3)
    assert torch.equal(anew.exact, found.exact)
    torch.testing.assert_close(anew.loss, found.loss)
    assert (anew.cache_bytes, found.cache_bytes > 0) == (0, True)
