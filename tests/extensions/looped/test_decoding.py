"""Greedy decoding with caches: against reading anew, each way of sharing by definition, teacher forcing, a solver."""

import json

import pytest
import torch
from conftest import NARROW, output
from evaluators import shaken

from reason.cli import main
from reason.extensions.looped.decoding import Caches, generate
from reason.extensions.looped.model import LoopedConfig, LoopedModel, LoopedState
from reason.extensions.looped.studies.caches import answer
from reason.models import Shape
from reason.models.base import IGNORE, Batch
from reason.rollout import unroll

SHAPE = Shape(seq_len=9, vocab_size=7)
KINDS = {
    "gpt": {},
    "llama pre": {"block": "llama", "norm": "rmsnorm", "norm_placement": "pre", "num_layers": 2},
    "everything": {"prelude": 1, "coda": 2, "between": ("injection", "norm", "damping")},
    "final-only": {"norm_placement": "pre", "readout": 3, "gate": "position"},
}


def make(dtype=torch.float64, **changes):
    config = LoopedConfig(**{"hidden_size": 8, "num_heads": 2, "dropout": 0.3} | changes)
    return shaken(LoopedModel(config, SHAPE, dtype)).to(dtype).eval()


def anew(model, tokens, loops):
    """Logits of all cells, the whole text read without any cache."""
    whole = Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long))
    *_, last = unroll(model, whole, loops)
    return last.logits.detach()


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("loops", [1, 3])
def test_cached_per_loop_is_uncached(changes, loops):
    model, prompt = make(**changes), torch.randint(0, 7, (3, 4))
    found = generate(model, prompt, 5, loops)
    text = torch.cat([prompt, found.tokens], dim=1)
    whole = anew(model, text, loops)
    torch.testing.assert_close(found.logits, whole[:, 3:-1])
    assert torch.equal(found.tokens, found.logits.argmax(-1))
    caches = Caches(model, loops)
    pieces = torch.cat([caches.read(piece)[0].logits for piece in text.split((2, 1, 6), dim=1)], dim=1)
    torch.testing.assert_close(pieces, whole)
    end = int(found.tokens[0, 1])
    first = found.tokens[0].tolist().index(end) + 1
    assert generate(model, prompt[:1], 5, loops, end=end).tokens.tolist() == found.tokens[:1, :first].tolist()


def naive(model, prompt, count, loops, sharing, keep):
    """One row at a time, the block's layers by hand: keys and values of each past cell as `sharing` says."""
    blocks = list(model.block.blocks)
    said = []

    def shared(by_loop):
        picked = {"last": by_loop[-1:], "first": by_loop[:1], "mean": by_loop}[sharing]
        return [tuple(torch.stack(part).mean(0) for part in zip(*picked, strict=True))] * loops

    # the prompt, without any cache: every cell's keys and values in every loop and layer
    context = model.encode_from(prompt[None], 0)
    z = context.x
    seen = [[[] for _ in blocks] for _ in range(len(prompt))]
    for _ in range(loops):
        for layer, block in enumerate(blocks):
            k, v = keys_values(block, z)
            for cell in range(len(prompt)):
                seen[cell][layer].append((k[:, cell], v[:, cell]))
            z = block(z)
    # [cell][layer][loop] -> keys and values (heads, d)
    past = seen if keep else [[shared(layer) for layer in cell] for cell in seen]
    said.append(model.readout(LoopedState(z), context).logits[0, -1])
    for i in range(count - 1):
        context = model.encode_from(said[-1].argmax().view(1, 1), len(prompt) + i)
        z = context.x
        mine = [[] for _ in blocks]
        for loop in range(loops):
            for layer, block in enumerate(blocks):
                own = tuple(t[:, 0] for t in keys_values(block, z))
                mine[layer].append(own)
                every = [*(cell[layer][loop] for cell in past), own]
                keys, values = (torch.stack(part, dim=1)[None] for part in zip(*every, strict=True))
                block.recall = lambda k, v, keys=keys, values=values: (keys, values)
                z = block(z)
                block.recall = None
        past.append([shared(layer) for layer in mine])
        said.append(model.readout(LoopedState(z), context).logits[0, -1])
    return torch.stack(said)


def keys_values(block, z):
    """(heads, cells, d) each."""
    h = block.attention_half.argument(z)
    cells, width = h.shape[1:]
    heads = block.attention.num_heads
    _, k, v = block.attention.qkv(h).view(cells, 3, heads, width // heads).permute(1, 2, 0, 3)
    return k, v


@torch.no_grad()
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("sharing", ["last", "mean", "first"])
def test_a_shared_cache_is_what_its_name_says(sharing, keep):
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


def test_memory_is_told():
    """Two numbers a cell, layer and loop of width D: float32 for 2 rows, 8 cells at the end, 4 of them a prompt."""
    model, prompt = make(torch.float32, num_layers=2, coda=1), torch.randint(0, 7, (2, 4))
    per_cell = 2 * 2 * 8 * 4  # rows, keys and values, D, bytes
    for sharing, slots in (("per-loop", 3), ("last", 1), ("mean", 1), ("first", 1)):
        assert generate(model, prompt, 5, 3, sharing).bytes == per_cell * 8 * (slots * 2 + 1)
    kept = generate(model, prompt, 5, 3, "mean", keep_prompt=True)
    assert kept.bytes == per_cell * (4 * 3 * 2 + 4 * 2 + 8)


def test_answers_are_held_against_the_labels_and_their_loss_is_of_their_own_history():
    """Rows of two prompt lengths; greedy exactness is teacher-forced exactness, since the first miss ends both."""
    torch.manual_seed(1)
    model = make()
    inputs, labels, losses = torch.randint(0, 7, (8, 9)), torch.full((8, 9), IGNORE), []
    for row in range(8):  # some rows are labelled with what the model says itself
        start = 4 if row % 2 else 6
        found = generate(model, inputs[row : row + 1, : start + 1], 3, 3)
        said = found.tokens[0].clone()
        labels[row, start : start + 3] = said if row < 5 else (said + 1) % 7
        inputs[row, start + 1 : start + 3] = labels[row, start : start + 2]
        losses.append(torch.nn.functional.cross_entropy(found.logits[0], labels[row, start : start + 3]).item())
    batch = Batch(inputs, labels, torch.zeros(8, dtype=torch.long))
    *_, forced = unroll(model, batch, 3)
    exact, loss, size = answer(model, batch, 3)
    assert torch.equal(exact, forced.exact)
    assert exact.tolist() == [True] * 5 + [False] * 3
    assert loss.tolist() == pytest.approx(losses, rel=1e-5)
    assert size > 0


def test_a_sum_is_typed_and_solved(addition, tmp_path):
    run = tmp_path / "run"
    assert main(["train", "stars-small-post-sandwich-layernorm", f"data={addition}", f"run={run}", *NARROW]) == 0
    told = json.loads(output(["solve", str(run), "12+34=", "steps=3", "--restarts", "8", "--json"], status=None))
    assert [row["step"] for row in told["steps"]] == [1, 2, 3]
    assert told["rules_hold"] is told["sure"]
    assert told["restarts"] == 1  # a text that is written on is not tried again
    assert told["steps"][0]["halting"] is None
    assert told["answer"] == told["steps"][-1]["answer"]
