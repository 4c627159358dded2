"""Messages along relations: a reference in numpy, what they are equivariant to, and the sizes that they serve."""

from typing import Any

import numpy as np
import pytest
import torch
from reference import silu

from datasets_gen.structure import Relation, Structure
from datasets_gen.sudoku import Sudoku
from reason.errors import ConfigError
from reason.extensions.declared.mixer import Messages, links
from reason.models import FAMILIES, RecursiveConfig, build_model
from reason.models.base import Batch, Shape

LESS = Relation(name="less", places=2)
SUM = Relation(name="sum", clues=1, highest=9, instances=((0, 1, 2), (3, 4)))
HIDDEN = Relation(name="hidden", places=3, seen=False, instances=((0, 1, 2),))
ROWS = {"row": (0, 0, 0, 1, 1, 1)}
VALUES = Structure(groups=ROWS, relations=(HIDDEN, LESS, SUM), values=(2, 3, 4))
SYMBOLS = Structure(groups=ROWS, relations=(HIDDEN, LESS, SUM), symbols=(2, 3, 4))
SETTINGS: dict[str, Any] = {"mixer": "relations", "positions": "none", "hidden_size": 8, "num_heads": 1}
RECURSIVE = RecursiveConfig(**SETTINGS, expansion=2, puzzle_emb_len=0, h_cycles=2, l_cycles=2, q_from="mean")
CONFIGS: list[Any] = [RECURSIVE]
if "looped" in FAMILIES:
    CONFIGS.append(FAMILIES["looped"].config(**SETTINGS, causal=False, dropout=0, between=("injection",), init_std=0.3))


def own(rows=3):
    """Instances of six cells by relation: none of the hidden one, two of `less`, one or two of `sum`."""
    hidden = torch.empty(rows, 0, 3, dtype=torch.int16)
    less = torch.tensor([[0, 1], [4, 3]], dtype=torch.int16).expand(rows, 2, 2)
    sums = torch.tensor([[7, 5, 2, -1], [-1, -1, -1, -1]], dtype=torch.int16).repeat(rows, 1, 1)
    sums[0, 1] = torch.tensor([3, 0, 3, 4])  # number 3 of cells 0, 3 and 4
    return hidden, less, sums


def make(config, structure, **changes):
    torch.manual_seed(1)
    shape = Shape(seq_len=6, vocab_size=5, structure=structure)
    return build_model(config.model_copy(update=changes), shape, torch.float64).double().eval()


@torch.no_grad()
def logits(model, tokens, relations=(), steps=2):
    x = model.encode(Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long), relations))
    state = model.initial_state(x)
    for _ in range(steps):
        state = model.step(state, x)
    return model.readout(state, x).logits


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("relation", [LESS, SUM], ids=lambda relation: relation.name)
def test_messages_are_gated_sums_over_places(relation, values):
    width, inner, symbols, cells = 3, 2, 4, 6
    torch.manual_seed(0)
    messages = Messages(width, inner, relation, values, "silu", None).double()
    instances = own()[1 if relation is LESS else 2]
    h = torch.randn(3, cells, symbols, width, dtype=torch.float64)
    got = messages(h, links(instances, relation, cells, h.dtype)).detach().numpy().reshape(3, cells, symbols, 2 * inner)
    sums, answer = messages.sums.weight.detach().numpy(), messages.answer.weight.detach().numpy()
    tables = None if messages.numbers is None else messages.numbers.weight.detach().numpy()
    wanted = np.zeros_like(got)
    for b, instance in np.ndindex(instances.shape[:2]):
        row = instances[b, instance].tolist()
        numbers, members = row[: relation.clues], [cell for cell in row[relation.clues :] if cell >= 0]
        if not members:
            continue
        places = [[cell] for cell in members] if relation.places else [members]
        for k in range(symbols):
            read = []
            for place in places:
                pooled = h[b, place].numpy().sum(0) / np.sqrt(len(place))  # (K, D)
                parts = [pooled[k]]
                if values:
                    parts += [pooled[:k].sum(0) / np.sqrt(symbols), pooled.sum(0) / np.sqrt(symbols)]
                read += parts
            gates = sums @ np.concatenate(read)
            if tables is not None:
                gates = gates + tables[numbers[0] + 1]
            answers = answer @ (silu(gates[:width]) * gates[width:])
            for part, place in zip(answers.reshape(len(places), -1), places, strict=True):
                wanted[b, place, k] += part
    np.testing.assert_allclose(got, wanted, atol=1e-12)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
@pytest.mark.parametrize("structure", [VALUES, SYMBOLS], ids=["values", "symbols"])
@pytest.mark.parametrize("symbols", [False, True])
def test_the_order_of_instances_and_of_cells_without_order_changes_nothing(config, structure, symbols):
    model, tokens = make(config, structure, symbols=symbols), torch.randint(1, 5, (3, 6))
    hidden, less, sums = own()
    wanted = logits(model, tokens, (hidden, less, sums))
    shuffled = sums[:, [1, 0]][..., [0, 3, 1, 2]]
    close(logits(model, tokens, (hidden, less[:, [1, 0]], shuffled)), wanted)
    order = [2, 0, 1]
    close(logits(model, tokens[order], tuple(rows[order] for rows in (hidden, less, sums))), wanted[order])
    padded = torch.nn.functional.pad(sums, (0, 2, 0, 3), value=-1)
    close(logits(model, tokens, (hidden, less, padded)), wanted)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.kind)
def test_renamed_cells_and_symbols_are_renamed_in_the_answer(config):
    torch.manual_seed(3)
    hidden, less, sums = own()
    tokens, cells = torch.randint(1, 5, (3, 6)), torch.randperm(6)  # new cell i was cell cells[i]
    place = cells.argsort()
    moved = VALUES.model_copy(
        update={
            "groups": {"row": tuple(np.array(ROWS["row"])[cells].tolist())},
            "relations": tuple(
                each.model_copy(update={"instances": tuple(tuple(place[list(i)].tolist()) for i in each.instances)})
                for each in VALUES.relations
            ),
        }
    )
    rename = torch.where(sums[..., 1:] < 0, -1, place[sums[..., 1:].long()])
    renamed = (hidden, place[less.long()], torch.cat([sums[..., :1], rename], -1))
    wanted = logits(make(config, VALUES, symbols=True), tokens, own())
    close(logits(make(config, moved, symbols=True), tokens[:, cells], renamed), wanted[:, cells])
    names = torch.tensor([0, 1, 4, 2, 3])
    model = make(config, SYMBOLS, symbols=True)
    close(logits(model, names[tokens], own())[..., names], logits(model, tokens, own()))


def test_places_and_numbers_matter():
    model, tokens = make(RECURSIVE, VALUES, symbols=True), torch.randint(1, 5, (3, 6))
    hidden, less, sums = own()
    wanted, more = logits(model, tokens, own()), sums.clone()
    more[..., 0] += 1
    for other in ((hidden, less.flip(-1), sums), (hidden, less, more), (hidden, less[:, :1], sums)):
        assert (logits(model, tokens, other) - wanted).abs().max() > 1e-4


def test_groups_alone_are_the_mixer_of_groups():
    structure = Sudoku(4).structure
    shape = Shape(seq_len=16, vocab_size=6, structure=structure)
    settings = RECURSIVE.model_copy(update={"symbols": True})
    by_groups = build_model(settings.model_copy(update={"mixer": "groups"}), shape, torch.float64).double().eval()
    by_relations = build_model(settings, shape, torch.float64).double().eval()
    by_relations.load_state_dict(by_groups.state_dict())
    tokens = torch.randint(1, 6, (3, 16))
    close(logits(by_relations, tokens), logits(by_groups, tokens))


def test_weights_serve_other_sizes_and_name_what_they_lack():
    model = make(RECURSIVE, SYMBOLS, symbols=True)
    larger = SYMBOLS.model_copy(update={"groups": {"row": (0, 0, 1, 1, 2, 2, 3, 3)}, "relations": (HIDDEN, LESS, SUM)})
    shape = Shape(seq_len=8, vocab_size=5, structure=larger)
    assert model.accepts(shape)
    model.add_shape(shape)
    assert logits(model, torch.randint(1, 5, (2, 8)), own(2)).shape == (2, 8, 5)
    other = larger.model_copy(update={"relations": (LESS,)})
    assert not model.accepts(Shape(seq_len=8, vocab_size=5, structure=other))
    with pytest.raises(ConfigError, match="the set declares none"):
        build_model(RECURSIVE, Shape(seq_len=6, vocab_size=5), torch.float32)
    with pytest.raises(ConfigError, match=r"which model\.mixer=groups ignores"):
        build_model(
            RECURSIVE.model_copy(update={"mixer": "groups", "symbols": True}),
            Shape(seq_len=6, vocab_size=5, structure=VALUES),
            torch.float32,
        )
