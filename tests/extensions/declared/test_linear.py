"""The linear form of rules, proved on all assignments, and the mixer over it: a reference, symmetries, several sets."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import make_set, output, refusal
from reference import silu

from datasets_gen.extensions.declared.linear import linear_form
from datasets_gen.extensions.declared.puzzle import FIRST
from datasets_gen.extensions.declared.relations import holds
from datasets_gen.extensions.declared.rules import Rule, evaluate
from datasets_gen.structure import Relation, Structure
from reason.cli import main
from reason.data.puzzles import by_relation
from reason.errors import ConfigError
from reason.extensions.declared.linear import LinearMixer
from reason.extensions.declared.presets import sample
from reason.extensions.declared.sums import LinearConstraints, Sparse, Terms, all_kinds, features, tables
from reason.losses.repulsion import repulsion, repulsion_x
from reason.models import RecursiveConfig, build_model
from reason.models.base import Batch, Context, Shape
from reason.nn.geometry import Geometry
from reason.rollout import SupervisionStep

KINDS = Path(__file__).parents[3] / "examples/puzzles"


@torch.no_grad()
def logits(model, tokens, relations=()):
    """Of two steps."""
    x = model.encode(Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long), relations))
    state = model.step(model.step(model.initial_state(x), x), x)
    return model.readout(state, x).logits


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=1e-10, rtol=0)


DIGITS = (1, 2, 3, 4, 5)
VISIBLE = [["<", "x0", "x1"], ["<", ["max", "x0", "x1"], "x2"], ["<", ["max", "x0", "x1", "x2"], "x3"]]
RULES: list[tuple[Rule, int, tuple[int, ...], tuple[int, ...]]] = [
    (["alldifferent", "x"], 4, (), (1, 2, 3, 4)),
    (["alldifferent", "x"], 3, (), DIGITS),
    (["allequal", "x"], 2, (), DIGITS),
    (["<", "x0", "x1"], 2, (), DIGITS),
    (["==", ["sum", "x"], "n"], 4, (11,), DIGITS),
    (["==", ["sum", "x"], "n"], 1, (21,), DIGITS),
    (["in", ["sum", "x"], [1, 2]], 3, (), (0, 1)),
    (["<=", ["sum", ["==", "x", 1]], 1], 5, (), (0, 1)),
    (["==", ["sum", ["==", "x", 3]], "n"], 4, (2,), (1, 2, 3)),
    (["==", ["*", "x"], "n"], 3, (12,), DIGITS),
    (["==", ["*", "x"], "n"], 2, (7,), DIGITS),
    (["==", ["*", "x"], "n"], 3, (7,), DIGITS),
    (["==", ["*", "x"], "n"], 3, (0,), DIGITS),
    (["<=", ["abs", ["-", "x0", "x1"]], "n"], 2, (9,), DIGITS),
    (["==", ["abs", ["-", "x0", "x1"]], "n"], 2, (2,), DIGITS),
    (["<", ["sum", "x0", ["*", 2, "x1"]], ["sum", "x2", 4]], 3, (), DIGITS),
    (["or", ["==", "x0", 1], ["==", "x1", 2], ["==", "x2", 3]], 3, (), (1, 2, 3)),
    (["==", ["max", "x"], 3], 3, (), (1, 2, 3)),
    (["==", ["sum", ["max", "x"], 1], 3], 3, (), (1, 2, 3)),
    (["->", ["==", "x0", 1], ["<", "x1", "x2"]], 3, (), (1, 2, 3)),
    (["==", ["sum", *VISIBLE], "n"], 4, (1,), (1, 2, 3)),
    (["or", ["and", ["==", "x0", 1], ["==", "x1", 2]], ["and", ["==", "x0", 3], ["==", "x1", 1]]], 2, (), (1, 2, 3)),
    (["runs"], 6, (2, 1), (0, 1)),
    (["runs"], 5, (1, 1, 1), (0, 1)),
    (["runs"], 4, (), (0, 1)),
    (["runs"], 4, (3, 2), (0, 1)),
]


def solutions(sums, every, values):
    """Which grids (K^n, n) satisfy the sums with some values of the hidden booleans."""
    size = every.shape[1]
    hidden = max((max(each.places) for each in sums), default=0) + 1 - size
    booleans = (every[..., None] == np.array(values)).transpose(1, 2, 0)[..., None]  # (n, K, K^n, 1)
    beyond = np.array([*itertools.product((0, 1), repeat=max(hidden, 0))], bool).T  # (h, 2^h)
    linear = np.ones((len(every), beyond.shape[1] if hidden > 0 else 1), bool)
    for places, which, weights, low, high in sums:
        terms = zip(places, which, weights, strict=True)
        total = sum(w * (booleans[p, v] if p < size else beyond[None, p - size]) for p, v, w in terms)
        linear &= (low <= total) & (total <= high)
    return linear.any(1)


@pytest.mark.parametrize(("rule", "size", "numbers", "values"), RULES, ids=lambda each: str(each)[:30])
def test_the_linear_form_has_the_solutions_of_the_rule(rule, size, numbers, values):
    every = np.array([*itertools.product(values, repeat=size)])  # (K^n, n)
    fits = evaluate(rule, every, np.tile(np.array(numbers, np.int64), (len(every), 1)))
    assert (solutions(linear_form(rule, size, numbers, values), every, values) == fits).all()


def test_networks_see_which_cells_of_a_connected_area_are_adjacent():
    values = (0, 1, 2)
    sums = linear_form(["connected", [2, 3], [">", "x0", 0]], 6, (), values)
    assert solutions(sums, np.array([*itertools.product(values, repeat=6)]), values).all()
    corner = sums[0]  # its two neighbours less the cell itself, each with the values 1 and 2
    assert [*zip(corner.places, corner.values, corner.weights, strict=True)] == [
        (0, 1, -1), (0, 2, -1), (1, 1, 1), (1, 2, 1), (3, 1, 1), (3, 2, 1)
    ]  # fmt: skip
    assert [len({*each.places}) for each in sums] == [3, 4, 3, 3, 4, 3]


def test_networks_see_that_a_point_of_a_loop_has_two_edges_or_none():
    ends = [(0, 1), (1, 2), (0, 3), (1, 4), (2, 5), (3, 4), (4, 5)]  # of 2×3 points, line by line
    every = np.array([*itertools.product((0, 1), repeat=7)])
    touches = np.array([[at in pair for pair in ends] for at in range(6)])  # (6, 7)
    degrees = every @ touches.T
    sums = linear_form(["one_loop", [2, 3], ["==", "x0", 1]], 7, (), (0, 1))
    assert (solutions(sums, every, (0, 1)) == np.isin(degrees, (0, 2)).all(1)).all()


@torch.no_grad()
def satisfied(constraints, tokens, relations):
    """(B,) whether answers satisfy all constraints but those of one value for each cell, which a wall has not."""
    alphabet = torch.arange(2, 2 + constraints.symbols)
    booleans = (tokens[..., None] == alphabet).flatten(1).double()  # (B, S·K)
    of_set = [getattr(constraints, name).expand(len(tokens), -1, -1) for name in Terms._fields]
    parts = [Terms(*(part[:, tokens.shape[1] :] for part in of_set))]
    parts += [constraints._puzzle_terms(index, rows, 0)[0] for index, rows in constraints._drawn(relations)]
    right = torch.ones(len(tokens), dtype=torch.bool)
    for terms in parts:
        held = booleans.gather(1, terms.booleans.clamp(min=0).flatten(1)).view(terms.booleans.shape)
        total = (held * terms.weights * (terms.booleans >= 0)).sum(-1)
        fits = (terms.bounds[..., 0] <= total) & (total <= terms.bounds[..., 1])
        right &= (fits | (terms.booleans < 0).all(-1)).all(1)
    return right.numpy()


@pytest.mark.parametrize("page", [
    "killer", "futoshiki", "kakuro", "takuzu", "light-up", "queens", "colouring", "random-values", "random-binary",
    "random-walls",
    *(str(KINDS / f"{kind}.py") for kind in ("anti_king", "kenken", "mines", "tents", "thermometers", "windoku")),
])  # fmt: skip
def test_the_constraints_of_a_page_judge_as_its_rules_do(page):
    puzzle, splits = sample(page)
    split, structure, rng = splits["train"], puzzle.structure, np.random.default_rng(0)
    constraints = LinearConstraints(Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=structure))
    alphabet = np.array(structure.alphabet)
    relations = by_relation(split.relations, structure)
    for changed in (0, 1, 1, 1, 2, 2, 2):
        answers = split.labels.astype(np.int64)
        for answer in answers:
            cells = rng.permutation(np.flatnonzero(np.isin(answer, alphabet)))[:changed]
            answer[cells] = np.roll(answer[cells], 1) if changed == 2 else rng.choice(alphabet, len(cells))
        fits = holds(structure, split.relations, answers - FIRST + puzzle.lowest)
        assert (satisfied(constraints, torch.from_numpy(answers), relations) == fits).all()
        assert fits.all() or changed


def test_a_product_and_its_derivatives_are_those_of_the_dense_matrix():
    row, column, weight = torch.tensor([0, 2, 2, 3, 9]), torch.tensor([1, 0, 2, 1, 0]), torch.randn(5)  # row 9: beyond
    sparse = Sparse.of(row, column, weight, (4, 3))
    dense = torch.zeros(4, 3, dtype=torch.float64).index_put((row[:4], column[:4]), weight[:4].double())
    h, tangent = torch.randn(2, 3, 2, 5, dtype=torch.float64)
    wanted = torch.einsum("rn,nbd->rbd", dense, h)
    torch.testing.assert_close(sparse @ h, wanted)
    torch.testing.assert_close(sparse.transposed @ wanted, torch.einsum("rn,rbd->nbd", dense, wanted))
    assert torch.autograd.gradcheck(sparse.__matmul__, h.requires_grad_())
    assert torch.autograd.gradgradcheck(sparse.__matmul__, h)
    got = torch.func.jvp(sparse.__matmul__, (h.detach(),), (tangent,))
    torch.testing.assert_close(got, (wanted.detach(), torch.einsum("rn,nbd->rbd", dense, tangent)))


LESS = Relation(name="lt", rule=["<", "x0", "x1"], places=2)
SUM = Relation(name="sum_eq", rule=["==", ["sum", "x"], "n"], clues=1, highest=9, instances=())
FOUR = Relation(name="sum_eq_4", rule=["==", ["sum", "x"], 4], instances=((1, 4),))
PAIRS = Structure(groups={"row": (0, 0, 0, 1, 1, 1)}, relations=(LESS, SUM, FOUR), values=(2, 3, 4), lowest=1)
SETTINGS: dict[str, Any] = {"mixer": "linear", "symbols": True, "positions": "none", "hidden_size": 8, "num_heads": 1}
CONFIG = RecursiveConfig(**SETTINGS, expansion=2, puzzle_emb_len=0, h_cycles=2, l_cycles=2, q_from="mean")


def own(rows=3):
    """Instances of six cells by relation: two of `lt`, one or two of `sum_eq`, none of the set's own."""
    less = torch.tensor([[0, 1], [4, 3]], dtype=torch.int16).expand(rows, 2, 2)
    sums = torch.tensor([[7, 5, 2, -1], [-1, -1, -1, -1]], dtype=torch.int16).repeat(rows, 1, 1)
    sums[0, 1] = torch.tensor([6, 0, 3, 4])  # 6 is the sum of cells 0, 3 and 4
    return less, sums, torch.empty(rows, 0, 2, dtype=torch.int16)


def make(structure, **changes):
    torch.manual_seed(1)
    shape = Shape(seq_len=6, vocab_size=5, structure=structure)
    return build_model(CONFIG.model_copy(update=changes), shape, torch.float64).double().eval()


@torch.no_grad()
def test_messages_are_gated_sums_over_the_terms_of_a_constraint():
    width, inner, rows = 3, 2, 3
    mixer = LinearMixer(width, inner).double()
    constraints = LinearConstraints(Shape(seq_len=6, vocab_size=5, structure=PAIRS))
    found = constraints(Context(torch.zeros(rows, 18, width, dtype=torch.float64), relations=own(rows)))
    h = torch.randn(rows, 18, width, dtype=torch.float64)
    got = mixer(h, Geometry(constraints=found, symbols=3)).numpy()
    y = (h @ mixer.own.weight.T).numpy()
    every = Terms(*(getattr(constraints, name).expand(rows, -1, -1) for name in Terms._fields))
    for terms in (every, *(constraints._puzzle_terms(index, row, 18)[0] for index, row in enumerate(own()[:2]))):
        facts = features(terms, (terms.booleans >= 0).sum(-1)).double()
        for b, c in np.ndindex(*terms.booleans.shape[:2]):
            there = terms.booleans[b, c] >= 0
            members, weights = terms.booleans[b, c][there], terms.weights[b, c][there].double()
            if not len(members):
                continue
            ratio = weights / weights.abs().max().clamp(min=1)
            differ = float((weights != 1).any())
            root = len(members) ** -0.5
            gates = mixer.read.weight @ h[b, members].sum(0) * root + mixer.features.weight @ facts[b, c]
            gates = gates + differ * mixer.read_weighted.weight @ (ratio[:, None] * h[b, members]).sum(0) * root
            message = torch.from_numpy(silu(gates[:width].numpy())) * gates[width:]
            for boolean, share in zip(members.tolist(), ratio.tolist(), strict=True):
                y[b, boolean] += (mixer.answer.weight @ message).numpy()
                y[b, boolean] += differ * share * (mixer.answer_weighted.weight @ message).numpy()
    wanted = (silu(y[..., :inner]) * y[..., inner:]) @ mixer.out.weight.numpy().T
    np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_the_order_of_constraints_changes_nothing():
    model, tokens, (less, sums, none) = make(PAIRS), torch.randint(1, 5, (3, 6)), own()
    wanted = logits(model, tokens, (less, sums, none))
    close(logits(model, tokens, (less[:, [1, 0]], sums[:, [1, 0]][..., [0, 2, 1, 3]], none)), wanted)
    order = [2, 0, 1]
    close(logits(model, tokens[order], tuple(rows[order] for rows in (less, sums, none))), wanted[order])
    close(logits(model, tokens, (less, torch.nn.functional.pad(sums, (0, 2, 0, 3), value=-1), none)), wanted)


def test_renamed_cells_and_symbols_are_renamed_in_the_answer():
    torch.manual_seed(3)
    tokens, cells = torch.randint(1, 5, (3, 6)), torch.randperm(6)  # new cell i was cell cells[i]
    place, (less, sums, none) = cells.argsort(), own()
    row = tuple(np.array(PAIRS.groups["row"])[cells].tolist())
    fixed = FOUR.model_copy(update={"instances": (tuple(place[[1, 4]].tolist()),)})
    moved = PAIRS.model_copy(update={"groups": {"row": row}, "relations": (LESS, SUM, fixed)})
    numbers = sums[..., :1], torch.where(sums[..., 1:] < 0, -1, place[sums[..., 1:].long()]).to(torch.int16)
    renamed = place[less.long()].to(torch.int16), torch.cat(numbers, dim=-1), none
    close(logits(make(moved), tokens[:, cells], renamed), logits(make(PAIRS), tokens, own())[:, cells])
    different = PAIRS.model_copy(update={"relations": (), "values": (), "lowest": None, "symbols": (2, 3, 4)})
    renaming = torch.tensor([0, 1, 3, 4, 2])  # of tokens
    wanted = logits(make(different), tokens)
    close(logits(make(different), renaming[tokens])[..., renaming], wanted)


@pytest.mark.parametrize(("changes", "structure", "message"), [
    ({"symbols": False}, {}, "model.mixer=linear has a position for every value of a cell"),
    ({}, {"lowest": None}, "reads what values stand for, which sets of older versions do not say"),
])  # fmt: skip
def test_what_the_mixer_cannot_read_is_refused(changes, structure, message):
    with pytest.raises(ConfigError, match=message):
        make(PAIRS.model_copy(update=structure), **changes)


def test_of_a_relation_of_too_many_forms_those_of_the_instances_are_computed():
    many, tokens = SUM.model_copy(update={"highest": 2**14}), torch.randint(1, 5, (3, 6))
    assert (len(all_kinds(SUM, 2)), len(all_kinds(many, 2))) == (20, 0)
    of_many = make(PAIRS.model_copy(update={"relations": (LESS, many, FOUR)}))
    close(logits(of_many, tokens, own()), logits(make(PAIRS), tokens, own()))


def test_hidden_booleans_have_positions_of_their_own():
    puzzle, splits = sample("nonogram")
    shape = Shape(seq_len=100, vocab_size=puzzle.vocab_size, structure=puzzle.structure)
    (rows,) = relations = by_relation(splits["train"].relations, puzzle.structure)  # (N, 20 lines, clues and 10 cells)
    model = build_model(CONFIG, shape, torch.float64).double().eval()
    tokens = torch.from_numpy(splits["train"].inputs.astype(np.int64))
    batch = Batch(tokens, tokens, torch.zeros(len(tokens), dtype=torch.long), relations)
    context = model.encode(batch)
    (lines,) = puzzle.structure.relations
    widest = tables(lines, all_kinds(lines, 10), 10, (0, 1)).hidden
    assert context.x.shape[1] == 200 + rows.shape[1] * widest
    seen = SupervisionStep(model, batch, context, (), (), active := torch.ones(len(tokens)), active, active)
    assert repulsion_x(seen) == repulsion(context.x[:, :200], active) != repulsion(context.x, active)
    got = logits(model, tokens, relations)
    assert got.shape == (len(tokens), 100, puzzle.vocab_size)
    mirrored = rows.flip(1)  # the lines in another order
    close(logits(model, tokens, (mirrored,)), got)
    changed = rows.clone()
    changed[0, 0, :2] = torch.tensor([7, -1])
    assert not torch.equal(logits(model, tokens, (changed,))[0], got[0])


def test_one_network_trains_on_sets_of_one_size_and_resumes_to_the_bit(tmp_path, capsys):
    made = ("sudoku --size 6", "killer --processes 1", "colouring --processes 1")
    sets = [make_set(f"{words} --train 8 --test 4 --seed 1", tmp_path / words.split()[0]) for words in made]
    settings = "init_from=null model.hidden_size=8 training.batch_size=4 training.compile=none data.hints=0"
    settings += " training.monitor.puzzles=0 training.steps=5"
    words = ["declared-puzzle", f"data={','.join(map(str, sets))}", *settings.split()]
    for name, stops in (("whole", []), ("half", ["--max-steps", "2"])):
        assert main(["train", *words, f"run={tmp_path / name}", *stops]) == 0
    assert main(["train", f"run={tmp_path / 'half'}", "--resume"]) == 0
    ends = [tmp_path / name / "checkpoints" / "step-000005" / "weights.safetensors" for name in ("whole", "half")]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    for directory in sets:
        assert main(["evaluate", str(tmp_path / "whole"), f"data={directory}", "steps=2"]) == 0
        (tmp_path / "puzzle.txt").write_text(output(["generate", "show", str(directory), "--split=test", "--question"]))
        words = ["solve", str(tmp_path / "whole"), str(tmp_path / "puzzle.txt"), "steps=2", "--restarts", "1", "--json"]
        for data in [str(directory), "colouring"] if directory.name == "colouring" else [str(directory)]:
            capsys.readouterr()
            assert main([*words, f"data={data}"]) in (0, 1)
            told = capsys.readouterr().out
            assert json.loads(told)["exact"] is not None
        if directory.name == "killer":  # question, answer and the solver's solution have the cages
            assert output([*words[:-1], f"data={directory}"], status=None).count("A=") >= 3
    refusal([*words, "data=colorings"], "colorings is neither the folder of a set nor a declared puzzle; did you mean")
    refusal(words, "whole solves many kinds of puzzles and needs the rules of yours: add data=FILE.py")
