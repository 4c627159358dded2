"""Models that read a puzzle's structure: what they must be equivariant to, and the sizes that they serve."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from evaluators import begun

from datasets_gen.maze import Maze
from datasets_gen.structure import Structure
from datasets_gen.sudoku import Sudoku
from reason.errors import ConfigError
from reason.models import RecursiveConfig, build_model
from reason.models.base import Shape
from reason.models.layout import Layout

GROUPS = {"mixer": "groups", "positions": "none", "hidden_size": 8, "num_heads": 1, "expansion": 2}
SYMBOLS = GROUPS | {"symbols": True}
OPEN = SYMBOLS | {"open_only": True}
LOCAL = GROUPS | {"mixer": "local"}
ROTARY = GROUPS | {"mixer": "attention", "positions": "rotary-2d", "num_heads": 2}
RECURSIVE = {"puzzle_emb_len": 0, "h_cycles": 2, "l_cycles": 2, "q_from": "mean"}
FAMILIES = {"recursive": lambda settings: RecursiveConfig(**RECURSIVE | settings)}  # tests of extensions add to it


def shape(puzzle):
    return Shape(seq_len=puzzle.seq_len, vocab_size=puzzle.vocab_size, structure=puzzle.structure)


@pytest.fixture
def family():
    return "recursive"


def make(family, puzzle, settings):
    torch.manual_seed(1)
    model = build_model(FAMILIES[family](settings), shape(puzzle), torch.float64).double().eval()
    for name, parameter in model.named_parameters():
        if name.startswith("q_head"):  # which starts at 0
            torch.nn.init.normal_(parameter)
    return model


def stepped(model, tokens, steps):
    """The state and the readout after some steps."""
    state, x = begun(model, tokens)
    for _ in range(steps):
        state = model.step(state, x)
    return state, model.readout(state, x)


@torch.no_grad()
def run(model, tokens, steps=2):
    """Logits and q after some steps."""
    _, readout = stepped(model, tokens, steps)
    return readout.logits, readout.q_halt


def sudokus(puzzle, count=3):
    return torch.randint(1, puzzle.vocab_size, (count, puzzle.seq_len))


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("settings", [GROUPS, SYMBOLS, OPEN], ids=str)
def test_moving_rows_within_bands_moves_the_logits(settings, family):
    puzzle = Sudoku(6)  # boxes of 2 rows and 3 columns
    model, tokens = make(family, puzzle, settings), sudokus(puzzle)
    tokens[:, ::2] = 1  # blank
    rows, columns = torch.tensor([1, 0, 4, 5, 2, 3]), torch.tensor([4, 3, 5, 0, 2, 1])
    source = (6 * rows[:, None] + columns).flatten()
    logits, q = run(model, tokens)
    moved, moved_q = run(model, tokens[:, source])
    close(moved, logits[:, source])
    assert logits.std() > 0.1, "the logits tell cells apart"
    close(moved_q, q)  # of a model without a head both are none
    broken = source.roll(1)  # a move that no Sudoku allows
    assert (run(model, tokens[:, broken])[0] - logits[:, broken]).abs().max() > 1e-3


def test_renaming_symbols_renames_the_logits(family):
    puzzle = Sudoku(6)
    model, tokens = make(family, puzzle, SYMBOLS), sudokus(puzzle)
    names = torch.tensor([0, 1, 4, 2, 7, 3, 6, 5])  # padding and blank keep theirs
    logits, q = run(model, tokens)
    renamed, renamed_q = run(model, names[tokens])
    close(renamed[..., names], logits)
    assert (logits[..., 2:].std(-1) > 1e-6).all(), "the logits tell symbols apart"
    assert (logits[..., :2] < -1e3).all(), "tokens that are no symbols are out of reach"
    assert (logits[..., 2:].abs() < 1e3).all()
    # Where a label may hold another token, its logit is the mean over the positions of its cell.
    walled = Shape(seq_len=4, vocab_size=5, structure=Structure(groups={"row": (0, 0, 1, 1)}, symbols=(3, 4)))
    values = torch.randn(2, 8, 4)  # (B, S·K, 1 + other tokens)
    by_cell = values.unflatten(1, (4, 2))
    wanted = torch.cat([(by_cell[:, :, 0, 1:] + by_cell[:, :, 1, 1:]) / 2, by_cell[..., 0]], dim=-1)
    close(Layout(RecursiveConfig(**RECURSIVE | SYMBOLS), walled).logits(values, None), wanted)
    close(renamed_q, q)
    without, _ = run(make(family, puzzle, GROUPS), names[tokens])
    assert (without[..., names] - run(make(family, puzzle, GROUPS), tokens)[0]).abs().max() > 1e-3


def test_symbols_that_the_clues_exclude_take_no_part():
    """Their logits are those of the impossible, nothing that stands there changes an answer, and they stay 0."""
    puzzle = Sudoku(4)
    model, tokens = make("recursive", puzzle, OPEN | {"initial": "random"}), torch.ones(1, 16, dtype=torch.long)
    tokens[0, 0], tokens[0, 5] = 2, 4  # digits 1 and 3, of one box
    start, x = begun(model, tokens)
    z_h, z_l = model.step(start, x)
    logits = model.readout(model.step(start, x), x).logits
    possible = logits[0, :, 2:] > -1e3  # (S, K)
    assert possible[0].tolist() == [True, False, False, False], "a clue"
    assert possible[1].tolist() == [False, True, False, True], "a blank cell of its row and of that box"
    assert possible[10].all(), "a cell that sees neither clue"
    shut = ~possible.flatten()
    assert start.z_h[0, shut].abs().max() == z_h[0, shut].abs().max() == z_l[0, shut].abs().max() == 0
    noisy = type(start)(*(torch.where(shut[:, None], 7.0, z) for z in start))
    close(model.step(noisy, x).z_h, z_h)


@pytest.mark.parametrize("local", [{}, {"neighbourhood": "von-neumann"}, {"initial": "input"}], ids=str)
def test_a_maze_inside_a_larger_walled_one_is_the_same_maze(local, family):
    small, large = Maze(5), Maze(9)
    model = make(family, small, LOCAL | local)
    model.add_shape(shape(large))
    tokens = torch.randint(1, 5, (3, 5, 5))
    tokens[:, 0, 0] = 2  # S at a corner: what it sends must not come back from beyond the edge
    walled = torch.ones(3, 9, 9, dtype=torch.long)
    walled[:, 2:7, 3:8] = tokens
    logits, _ = run(model, tokens.flatten(1), steps=3)
    within, _ = run(model, walled.flatten(1), steps=3)
    close(within.unflatten(1, (9, 9))[:, 2:7, 3:8], logits.unflatten(1, (5, 5)))
    opened = walled.clone()
    opened[:, 1, 3] = 2
    assert (run(model, opened.flatten(1), 3)[0] - within).abs().max() > 1e-6, "a free cell beyond it is seen"


def test_a_wall_among_walls_has_an_answer_and_an_ordinary_gradient():
    """From a state of 0 networks without biases would keep it, and each norm at 0 multiply the gradient by 1/√ε."""
    model = make("recursive", Maze(5), LOCAL | {"initial": "input", "l_cycles": 6})
    tokens = torch.ones(1, 25, dtype=torch.long)
    tokens[:, :3] = torch.tensor([3, 2, 4])
    logits = stepped(model, tokens, 4)[1].logits
    assert logits[0, -1].abs().max() > 1e-3
    assert logits[0, -1].abs().max() < 1e6
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    size = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None).sqrt()
    assert 1e-3 < size < 1e3


@pytest.mark.parametrize(("neighbourhood", "initial"), [("moore", "input"), ("von-neumann", "buffer")])
def test_walls_left_out_change_no_answer_of_a_free_cell(neighbourhood, initial):
    """Walls send nothing in either case; left out, they have no state, and answer that they are walls."""
    settings = LOCAL | {"neighbourhood": neighbourhood, "initial": initial}
    tokens = torch.randint(1, 5, (3, 25))
    wall = tokens == 1
    everywhere, _ = run(make("recursive", Maze(5), settings), tokens, steps=3)
    model = make("recursive", Maze(5), settings | {"open_only": True})
    state, readout = stepped(model, tokens, 3)
    close(readout.logits[~wall], everywhere[~wall])
    assert readout.logits[wall].argmax(-1).unique().tolist() == [1]
    assert all(z[wall].abs().max() == 0 for z in state)
    (readout.logits[~wall].square().sum() + readout.q_halt.sum()).backward()
    size = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None).sqrt()
    assert 1e-3 < size < 1e3, "a norm at 0 multiplies a gradient by 1/√ε"


def test_attention_knows_where_a_token_stands_by_its_positions_alone():
    """All tokens change places: their logits do too, and no more than that, only where there are no positions."""
    swap, tokens = torch.arange(15, -1, -1), sudokus(Sudoku(4)).roll(1, 1)
    for positions in ("none", "rotary-2d"):
        model = make("recursive", Sudoku(4), ROTARY | {"positions": positions})
        difference = (run(model, tokens[:, swap])[0] - run(model, tokens)[0][:, swap]).abs().max()
        assert difference < 1e-10 if positions == "none" else difference > 1e-3


@pytest.mark.parametrize("settings", [GROUPS, SYMBOLS, LOCAL, ROTARY], ids=["groups", "symbols", "local", "rotary-2d"])
def test_one_module_serves_several_sizes(settings, family):
    small, large = (Sudoku(6), Sudoku(9)) if settings is SYMBOLS else (Maze(4), Maze(7))
    if settings is GROUPS:
        small, large = lines(4), lines(5)
    models = [make(family, puzzle, settings) for puzzle in (small, large)]
    assert models[0].state_dict().keys() == models[1].state_dict().keys()
    assert models[0].accepts(shape(large))
    models[0].add_shape(shape(large))
    models[1].load_state_dict(models[0].state_dict())
    for puzzle in (small, large):
        tokens = torch.randint(1, 5, (2, puzzle.seq_len))
        logits, _ = run(models[0], tokens)
        assert logits.shape == (2, puzzle.seq_len, puzzle.vocab_size)
        if puzzle is large:
            close(logits, run(models[1], tokens)[0])


def lines(size):
    """A board of any size whose rows and columns are groups, with five tokens."""
    row, column = np.indices((size, size)).reshape(2, -1).tolist()
    structure = Structure(grid=(size, size), groups={"row": row, "column": column})
    return SimpleNamespace(seq_len=size**2, vocab_size=5, structure=structure)


def test_what_a_model_cannot_read_it_says():
    local = make("recursive", Maze(4), LOCAL)
    assert not local.accepts(shape(Sudoku(6)))  # other tokens
    assert not local.accepts(Shape(seq_len=25, vocab_size=6))  # no grid
    assert not local.accepts(shape(Maze(4)).model_copy(update={"structure": Structure(grid=(2, 8))}))
    learned = make("recursive", Maze(4), LOCAL | {"positions": "learned"})
    assert not learned.accepts(shape(Maze(5)))
    assert learned.accepts(shape(Maze(4)))
    no_groups = Shape(seq_len=16, vocab_size=6, structure=Structure(symbols=(2, 3, 4, 5)))
    for settings, of, words in (
        (LOCAL, Shape(seq_len=16, vocab_size=6), r"model\.mixer=local needs a grid"),
        (GROUPS, shape(Maze(4)), "needs groups"),
        (SYMBOLS, shape(lines(4)), "a position for every symbol"),
        (OPEN, no_groups, "symbols that groups hold once"),
        (LOCAL | {"open_only": True}, shape(Sudoku(4)), "the set declares no token for it"),
    ):
        with pytest.raises(ConfigError, match=words):
            build_model(RecursiveConfig(**RECURSIVE | settings), of)
