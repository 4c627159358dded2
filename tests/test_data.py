"""What is drawn, how often, and that a symmetry keeps a puzzle a puzzle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import make_set

from datasets_gen import layout
from datasets_gen.layout import Split, read_split, write_dataset
from datasets_gen.maze import Maze
from datasets_gen.puzzles import known_puzzle
from datasets_gen.structure import GridSymmetry
from datasets_gen.sudoku import Sudoku
from reason.data.augmentation import augment, draw_symmetries, give_hints
from reason.data.puzzles import PuzzleData, Sampler
from reason.models.base import IGNORE, Batch


@pytest.fixture(scope="module", params=[4, 9])
def sudoku(request, tmp_path_factory):
    words = f"sudoku --size {request.param} --train 20 --test 0 --seed 3"
    return PuzzleData(make_set(words, tmp_path_factory.mktemp("sets") / "sudoku"), "train")


def test_an_augmented_puzzle_is_still_solved_by_its_label(sudoku):
    task = known_puzzle(sudoku.metadata)
    batch = sudoku.take(torch.arange(20).repeat(10))
    moved = augment(batch, task.symmetry, torch.Generator().manual_seed(0))
    assert task.solved(moved.inputs.numpy(), moved.labels.numpy()).all()
    assert (moved.inputs == batch.inputs).all(1).float().mean().item() < 0.15  # 4×4: 1 relabelling in 24
    assert ((moved.inputs > 1).sum(1) == (batch.inputs > 1).sum(1)).all()


@pytest.mark.parametrize("size", [6, 9])
def test_boards_are_transposed_where_boxes_are_square(size):
    """Givens in the first row alone: they stay in one row, or in one column after a transposition."""
    grid = torch.ones(400, size, size, dtype=torch.long)
    grid[:, 0] = torch.arange(2, size + 2)
    batch = Batch(grid.flatten(1), grid.flatten(1), torch.zeros(400, dtype=torch.long))
    moved = augment(batch, Sudoku(size).symmetry, torch.Generator().manual_seed(0)).inputs.view(-1, size, size) > 1
    upright = moved.all(dim=2).any(dim=1).float().mean().item()
    assert upright == pytest.approx(0.5 if size == 9 else 1.0, abs=0.1)


@pytest.mark.parametrize("size", [6, 9])
def test_every_cell_comes_from_every_cell_alike(size):
    draws, cells = 4000, size**2
    source = draw_symmetries(draws, Sudoku(size).symmetry, torch.Generator().manual_seed(0)).source
    assert source is not None
    assert (source.sort(dim=1).values == torch.arange(cells)).all(), "each row is a permutation"
    often = torch.stack([(source == cell).sum(0) for cell in range(cells)])
    share = 1 / cells
    assert (often - draws * share).abs().max() < 5 * (draws * share * (1 - share)) ** 0.5


def test_tokens_after_the_renamed_ones_stay():
    drawn = draw_symmetries(9, GridSymmetry(1, 2, 1, 2, False, (2, 4)), torch.Generator().manual_seed(0))
    tokens = torch.tensor([[5, 2, IGNORE, 1]] * 9)
    moved = drawn.apply(tokens)
    assert [(moved == kept).sum().item() for kept in (5, IGNORE, 1)] == [9, 9, 9]
    assert torch.equal(drawn.undo(moved), tokens)


def test_a_square_has_eight_turns():
    """Each of which keeps neighbours neighbours; tries count through them, others draw them alike."""
    symmetry = Maze(5).symmetry
    eight = draw_symmetries(8, symmetry, torch.Generator(), torch.arange(8))
    assert eight.source is not None
    assert (eight.source[0] == torch.arange(25)).all()
    assert len(eight.source.unique(dim=0)) == 8
    rows, columns = eight.source.view(8, 5, 5) // 5, eight.source.view(8, 5, 5) % 5
    for axis in (1, 2):
        assert (rows.diff(dim=axis).abs() + columns.diff(dim=axis).abs() == 1).all()
    tokens = torch.arange(25).repeat(8, 1)
    assert torch.equal(eight.undo(eight.apply(tokens)), tokens)
    drawn = draw_symmetries(8000, symmetry, torch.Generator().manual_seed(0)).source
    _, counts = drawn.unique(dim=0, return_counts=True)
    assert len(counts) == 8
    assert (counts - 1000).abs().max() < 5 * (8000 * (1 / 8) * (7 / 8)) ** 0.5
    assert symmetry.distinct(100) == 8
    assert replace(symmetry, relabel=(2, 7)).distinct(100) == 100  # other names, other puzzles


def test_relabelling_is_uniform_over_permutations():
    tokens = torch.arange(1, 5).repeat(6000, 1)  # token 1 lies outside first..last and stays
    batch = Batch(tokens, tokens.clone(), torch.zeros(6000, dtype=torch.long))
    symmetry = GridSymmetry(1, 1, 1, 4, transpose=False, relabel=(2, 4), moves=False)
    moved = augment(batch, symmetry, torch.Generator().manual_seed(0)).inputs
    assert (moved[:, 0] == 1).all()
    _, counts = moved[:, 1:].unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 5 * (6000 * (1 / 6) * (5 / 6)) ** 0.5


def test_hints_fill_empty_cells_in_from_the_answer(sudoku):
    """Every second row on average none, the others 1 to 3 alike; any empty cell alike; clues and answers stay."""
    batch = sudoku.take(torch.zeros(6000, dtype=torch.long))
    symbols = torch.tensor(sudoku.shape.structure.symbols)
    given = give_hints(batch, symbols, 3, torch.Generator().manual_seed(0))
    changed = given.inputs != batch.inputs
    assert torch.equal(given.labels, batch.labels)
    assert (given.inputs[changed] == batch.labels[changed]).all()
    assert (batch.inputs[changed] == 1).all()  # they were blank
    shares = torch.bincount(changed.sum(1), minlength=4) / 6000
    assert torch.allclose(shares, torch.tensor([1 / 2, 1 / 6, 1 / 6, 1 / 6]), atol=0.03)
    blank = batch.inputs[0] == 1
    often = changed.float().mean(0)[blank]
    assert often.sum().item() == pytest.approx(1, abs=0.05)  # (1 + 2 + 3) / 6
    assert (often - often.mean()).abs().max() < 5 * (often.mean() / 6000) ** 0.5


def test_every_group_is_drawn_once_an_epoch(sudoku):
    sampler = Sampler(sudoku, 8, seed=0)
    drawn = torch.cat([sampler.batch(sampler.groups()).inputs for _ in range(15)])  # 120 puzzles: 6 epochs of 20
    for epoch in drawn.split(20):
        _, counts = torch.cat([sudoku.inputs.long(), epoch]).unique(dim=0, return_counts=True)
        assert (counts == 2).all()


def test_the_stream_goes_on_where_its_state_was_taken(sudoku):
    """Of batches larger than the set, moved and with hints."""
    settings = {"augmented": True, "hints": 2}
    first, second = (Sampler(sudoku, 64, seed=seed, **settings) for seed in (5, 99))
    assert not torch.equal(first.batch(first.groups()).inputs, second.batch(second.groups()).inputs)
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        for a, b in zip(first.batch(first.groups())[:3], second.batch(second.groups())[:3], strict=True):
            assert torch.equal(a, b)


def test_groups_puzzles_and_identifiers_of_a_published_layout(tmp_path):
    """2 groups: the first with puzzles of 2 and 1 examples, the second with one; identifiers follow."""
    inputs = np.arange(8).reshape(4, 2)
    split = Split(inputs, inputs[:, ::-1].copy(), np.array([1, 2, 3]), np.array([0, 2, 3, 4]), np.array([0, 2, 3]))
    write_dataset(tmp_path / "set", {"train": split}, task={}, vocab_size=8, identifiers=["", "a", "b", "c"])
    data = PuzzleData(tmp_path / "set", "train")
    assert (data.groups, len(data), data.shape.num_puzzle_identifiers) == (2, 4, 4)
    assert data.take(torch.arange(4)).identifiers.tolist() == [1, 1, 2, 3]
    assert data.take(torch.tensor([0])).labels.tolist() == [[1, IGNORE]]  # label 0 is ignore_label_id
    groups = torch.zeros(3000, dtype=torch.long)
    drawn = data.example_of_group(groups, torch.Generator().manual_seed(0)).bincount(minlength=4)
    # a puzzle of the group first (½ each), then an example of it
    assert drawn[3] == 0
    for count, share in zip(drawn[:3].tolist(), (0.25, 0.25, 0.5), strict=True):
        assert count == pytest.approx(3000 * share, abs=5 * (3000 * share * (1 - share)) ** 0.5)
    assert known_puzzle(data.metadata) is None


@pytest.mark.parametrize(("grouped", "stored"), [(False, np.int32), (True, np.int64)])
def test_a_large_set_gives_what_a_small_one_gives(tmp_path, monkeypatch, grouped, stored):
    """Its arrays on disk: the same fingerprint, batches, ratings and scored examples."""
    directory = make_set("maze --size 6 --min-path 8 --train 30 --test 0", tmp_path / "set")
    labels = np.load(directory / "train/all__labels.npy").astype(stored)
    labels[3::7] = IGNORE
    np.save(directory / "train/all__labels.npy", labels)
    if grouped:
        np.save(directory / "train/all__group_indices.npy", np.arange(0, 31, 3, dtype=np.int32))
        stated = (directory / "train/dataset.json").read_text()
        (directory / "train/dataset.json").write_text(stated.replace('"total_groups": 30', '"total_groups": 10'))
    small = PuzzleData(directory, "train")
    monkeypatch.setattr(layout, "LARGE", 0)
    large = PuzzleData(directory, "train")
    for name in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices", "ratings"):
        on_disk = isinstance(getattr(read_split(directory, "train")[1], name), np.memmap)
        assert on_disk == (name != "labels" or stored == np.int32)
    assert large.fingerprint == small.fingerprint
    some = torch.tensor([29, 3, 3, 0])
    assert large.ratings.tolist() == small.ratings.tolist()
    assert large.puzzle_of(some).tolist() == small.puzzle_of(some).tolist() == some.tolist()
    assert large.scored_examples(20).tolist() == small.scored_examples(20).tolist() != [*range(20)]
    for ours, theirs in zip(large.tokens_of(some), small.tokens_of(some), strict=True):
        assert (ours == theirs).all()
    samplers = [Sampler(data, 8, seed=0) for data in (small, large)]
    for _ in range(9):
        for ours, theirs in zip(*(sampler.batch(sampler.groups())[:3] for sampler in samplers), strict=True):
            assert torch.equal(ours, theirs)
