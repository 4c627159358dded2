"""Rules, label and generator of mazes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets_gen.layout import DatasetError
from datasets_gen.maze import Maze
from datasets_gen.maze.generate import Kind, maze_splits
from datasets_gen.maze.paths import FREE, GOAL, PATH, START, WALL, on_shortest_paths, solve


def random_maze(size, density, seed):
    """Tokens (S,) of a maze, walls at random, with a start and a goal."""
    rng = np.random.default_rng(seed)
    cells = np.where(rng.random(size * size) < density, 1, 2).astype(np.uint8)
    start, goal = rng.permutation(size * size)[:2]
    cells[start], cells[goal] = 3, 4
    return cells


def searched(maze, size, start):
    """Breadth-first search, written a second time: cell -> (moves, parent), in the published order of sides."""
    found, wave = {start: (0, None)}, [start]
    for cell in wave:
        row, column = divmod(cell, size)
        for r, c in ((row + 1, column), (row, column - 1), (row, column + 1), (row - 1, column)):
            if 0 <= r < size and 0 <= c < size and maze[r * size + c] != WALL and r * size + c not in found:
                found[r * size + c] = (found[cell][0] + 1, cell)
                wave.append(r * size + c)
    return found


def label_naively(maze, size):
    """The published rule: (label or None, cells of the shortest path)."""
    start, goal = (int((maze == token).argmax()) for token in (START, GOAL))
    found = searched(maze, size, start)
    if goal not in found:
        return None, 0
    label, cell = maze.copy(), found[goal][1]
    while cell != start:
        label[cell] = PATH
        cell = found[cell][1]
    return label, found[goal][0] + 1


@settings(max_examples=200)
@given(size=st.integers(2, 9), density=st.floats(0, 0.6), seed=st.integers(0, 2**32))
def test_labels_agree_with_a_second_implementation(size, density, seed):
    question = random_maze(size, density, seed)
    label, length = label_naively(question, size)
    labels, lengths, several = solve(question[None])
    assert lengths[0] == length
    puzzle = Maze(size)
    if label is None:
        assert puzzle.fault(question, question) == "no path leads from S to G"
        assert not puzzle.solved(question[None], question[None])[0]
    else:
        assert (labels[0] == label).all()
        assert several[0] in (1, 2)
        assert puzzle.fault(question, label) is None
        assert puzzle.valid(question[None], label[None])[0]


@settings(max_examples=60)
@given(size=st.integers(4, 8), seed=st.integers(0, 2**32))
def test_a_transposed_label_is_a_shortest_path_but_rarely_the_label(size, seed):
    """Why training does not augment mazes: the path stays shortest, the tie-break does not."""
    question = random_maze(size, 0.1, seed)
    label, _ = label_naively(question, size)
    if label is None:
        return
    turned_question, turned = (tokens.reshape(size, size).T.ravel() for tokens in (question, label))
    puzzle = Maze(size)
    assert not puzzle.symmetry.keeps_label
    assert puzzle.solved(turned_question[None], turned[None])[0]
    same = (solve(turned_question[None])[0][0] == turned).all()
    assert puzzle.valid(turned_question[None], turned[None])[0] == same
    assert puzzle.signatures(question[None], label[None]) == puzzle.signatures(turned_question[None], turned[None])


def test_fault_and_valid_name_the_same_mazes():
    puzzle = Maze(3)
    question = puzzle.parse("S..\n...\n..G")
    cases = [
        ("S..\no..\nooG", None),
        ("So.\n.o.\n.oG", "not the tie-broken one"),
        ("S..\no..\no.G", "has 4 cells with both ends, the shortest has 5"),
        ("S.o\n..o\n.oG", "do not join"),
        ("S..\n#..\nooG", "the answer changes row 2, column 1"),
    ]
    for text, words in cases:
        answer = puzzle.parse(text)
        fault = puzzle.fault(question, answer)
        assert (fault is None) == puzzle.valid(question[None], answer[None])[0] == (words is None)
        assert words is None or words in fault
    other_shortest = puzzle.parse(cases[1][0])
    assert puzzle.solved(question[None], other_shortest[None])[0]
    two_starts = np.where(np.arange(9) == 4, 3, question)
    assert "one S and one G" in puzzle.fault(two_starts, two_starts)
    assert not puzzle.valid(two_starts[None], two_starts[None])[0]


@pytest.mark.parametrize("unique", [False, True])
def test_generated_mazes_keep_what_was_asked(unique):
    splits = maze_splits(Kind(8, 0.3, 0.5, 14, unique), {"train": 60, "test": 20})
    questions = np.concatenate([split.inputs for split in splits.values()])
    labels, lengths, several = solve(questions)
    assert lengths.min() >= 14
    assert not unique or (several == 1).all()
    assert unique or (several == 2).any()
    assert Maze(8).valid(questions, labels).all()
    assert len(np.unique(Maze(8).signatures(questions, labels))) == 80
    assert (splits["train"].ratings == lengths[:60]).all()


def test_the_distribution_is_that_of_plain_rejection():
    """Weighted mazes with one far goal are distributed as random (maze, S, G) that happen to be far apart."""
    from scipy.stats import ks_2samp

    kind = Kind(6, 0.3, 0.5, 10, False)
    ours = maze_splits(kind, {"train": 1500}, seed=1)["train"]
    rng = np.random.default_rng(5)
    drawn = []
    while len(drawn) < 1500:
        walls = rng.random((4000, 36)) < rng.uniform(0.3, 0.5, (4000, 1))
        mazes = np.where(walls, 1, 2).astype(np.uint8)
        mazes = mazes[(mazes == 2).sum(1) >= 10]
        ends = np.argsort(np.where(mazes == 2, rng.random(mazes.shape), 2), axis=1)
        mazes[np.arange(len(mazes)), ends[:, 0]], mazes[np.arange(len(mazes)), ends[:, 1]] = 3, 4
        drawn.extend(mazes[solve(mazes)[1] >= 10])
    plain = np.array(drawn[:1500])
    assert ks_2samp(ours.ratings, solve(plain)[1]).pvalue > 0.001
    assert ks_2samp((ours.inputs == 1).sum(1), (plain == 1).sum(1)).pvalue > 0.001


@pytest.mark.parametrize(("kind", "words"), [
    (Kind(5, 0.3, 0.5, 40, False), "choose from 2"),
    (Kind(2, 0.0, 0.0, 2, False), "random mazes, none was new"),
    (Kind(4, 0.3, 0.5, 16, True), "choose from 2"),
])  # fmt: skip
def test_impossible_mazes_are_refused(monkeypatch, kind, words):
    monkeypatch.setattr("datasets_gen.maze.generate.DRAWS", 1000)
    monkeypatch.setattr("datasets_gen.maze.generate.PILOT", 5000)
    monkeypatch.setattr("datasets_gen.maze.generate.PATIENCE", 20)
    with pytest.raises(DatasetError, match=words):
        maze_splits(kind, {"train": 500})


def test_an_empty_line_within_a_maze_is_a_free_row_and_walls_fill_a_square():
    """As a line that ends early is filled up with free cells; before and after the maze it is none."""
    whole = Maze(4).parse("S..#\n.#..\n....\n...G")
    for text in (
        "S..#\n.#\n\n...G",
        "\r\nS  #\r\n #\r\n\r\n   G\r\n\r\n",
        "+----+\n|S..#|\n|.#..|\n\n|...G|\n+----+\n",
    ):
        assert Maze(9).sized(text).size == 4
        assert (Maze(4).parse(text) == whole).all()
        assert Maze(4).texts(text) == [text]
    assert Maze(2).texts("S..G\n\nSG..\n") == ["S..G", "SG.."]
    assert (Maze(3).typed("So.\n.oG\n...")[0] == Maze(3).typed("S..\n..G\n...")[0]).all(), "a typed path is free"
    assert Maze(4).parse("+----+\n|S..G|\n+----+").reshape(4, 4).tolist() == [[3, 2, 2, 4], *[[1] * 4] * 3]
    assert Maze(2).sized("S\n.\nG").parse("S\n.\nG").reshape(3, 3)[:, 1:].tolist() == [[1, 1]] * 3


@pytest.mark.parametrize(("text", "words"), [
    ("+-+\n|S|\n+G+", "'\\+' in row 1 is not a cell of a maze"),
    ("S..\n+--+\n..G", "'\\+' in row 2 is not a cell of a maze; type '#' for a wall"),
    ("||S.|\n|..|\n|.G|", "'\\|' in row 1 is not a cell of a maze"),
    ("S....\n....G", "2 rows and 5 columns; at most 4"),
])  # fmt: skip
def test_a_drawing_that_is_half_read_is_refused(text, words):
    with pytest.raises(DatasetError, match=words):
        Maze(4).parse(text)


def test_cells_of_shortest_paths_against_a_naive_search():
    mazes = maze_splits(Kind(7, 0.1, 0.4, 6, False), {"train": 40}, processes=1)["train"]
    marks = on_shortest_paths(mazes.inputs)
    for maze, marked, label in zip(mazes.inputs, marks, mazes.labels, strict=True):
        start, goal = (int((maze == token).argmax()) for token in (START, GOAL))
        away, back = searched(maze, 7, start), searched(maze, 7, goal)
        on_a_path = [c in away and c in back and away[c][0] + back[c][0] == away[goal][0] for c in range(49)]
        assert marked.tolist() == on_a_path
        assert marked[label == PATH].all()
    taught = Maze(7).marked(mazes.inputs, mazes.labels)
    assert taught.dtype == mazes.labels.dtype
    assert (np.where(taught == Maze(7).vocab_size, FREE, taught) == mazes.labels).all()
    assert (taught == Maze(7).vocab_size).any()
