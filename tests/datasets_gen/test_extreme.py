"""Hard Sudoku: neighbours, lineages, and the mix."""

import numpy as np
import pytest

from datasets_gen import parallel
from datasets_gen.layout import DatasetError
from datasets_gen.sudoku import BIN_NAMES, Sudoku, bins_of, extreme, mix, rating_histogram
from datasets_gen.sudoku.rating import SCALES, rate, rule_guesses
from datasets_gen.sudoku.solver import solve


@pytest.mark.parametrize("size", [4, 6, 9])
def test_lineages_give_minimal_puzzles(size, monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 60)
    chunk = extreme.descend(extreme.Lineage(size, 3, 0, 0))
    solved = solve(chunk.questions)
    assert (solved.counts == 1).all()
    assert (solved.solutions == chunk.answers).all()
    for board in chunk.questions:
        spared = np.array([np.where(np.arange(size**2) == cell, 0, board) for cell in np.flatnonzero(board)])
        assert (solve(spared).counts == 2).all()


@pytest.mark.parametrize("total", [1, 2, 7, 100, 999, 1000, 5000])
def test_quotas_are_the_mix_to_within_one(total):
    for each in mix.MIXES.values():
        wanted = mix.quotas(total, each.shares)
        assert wanted.sum() == total
        assert np.abs(wanted - total * np.array(each.shares) / sum(each.shares)).max() < 1


def test_bins_hold_what_their_names_say():
    assert BIN_NAMES == ("0", "1-4", "5-19", "20-49", "50-99", "100+")
    assert bins_of(np.array([0, 1, 4, 5, 19, 20, 49, 50, 99, 100, 500])).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert rating_histogram(np.array([0, 3, 3, 120])) == dict(zip(BIN_NAMES, (1, 2, 0, 0, 0, 1), strict=True))


def test_easy_puzzles_get_more_clues_only_where_no_guess_is_needed():
    chunk = mix.easy_chunk(extreme.Lineage(9, 0, 0, 0))
    clues = (chunk.questions > 0).sum(1)
    assert Sudoku(9).valid(chunk.questions + 1, chunk.answers + 1).all()
    assert clues[chunk.ratings == 0].max() > clues[chunk.ratings > 0].max()


def test_lineages_climb_and_repeat_themselves(monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 700)
    found = [extreme.descend(extreme.Lineage(9, 5, 0, number)) for number in range(3)]
    random = mix.easy_chunk(extreme.Lineage(9, 5, 0, 0)).ratings
    assert np.mean([chunk.ratings.mean() for chunk in found]) > 3 * random.mean()
    assert np.mean([chunk.ratings.max() for chunk in found]) > random.max()
    again = extreme.descend(extreme.Lineage(9, 5, 0, 1))
    assert all((a == b).all() for a, b in zip(found[1], again, strict=True))
    other = extreme.descend(extreme.Lineage(9, 5, 1, 1))
    assert not set(other.signatures.tolist()) & set(again.signatures.tolist())


def test_puzzles_that_a_fixed_rule_finds_much_harder_are_not_given_away(monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 600)
    most = 25 * SCALES[0] * extreme.LEAD - 1e-9  # of a fixed rule, where MIXED counts 25
    means = np.array([[25, most, most], [25, most + 0.1, 5], [25, 5, most + 0.1], [0, 0, 0], [0, 1, 1]])
    assert (extreme.lead(means) <= extreme.LEAD).tolist() == [True, False, False, True, False]
    chunk = extreme.descend(extreme.Lineage(9, 6, 0, 0))
    assert 0 < len(chunk.ratings) < 600
    assert (np.diff(extreme.lead(rule_guesses(chunk.questions))) >= 0).all()
    assert extreme.lead(rule_guesses(chunk.questions)).max() <= extreme.LEAD


def test_puzzles_given_away_are_no_neighbours(monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 300)
    boards = extreme.descend(extreme.Lineage(9, 6, 0, 0)).questions
    lacking = ((boards[:, None] != boards) & (boards > 0)).sum(2)  # clues of one that the other lacks
    assert len(boards) > 1
    assert (lacking[~np.eye(len(boards), dtype=bool)] > 1).all()
    neighbour = boards[0].copy()
    neighbour[np.flatnonzero(neighbour)[0]] = 0
    apart = extreme.apart(np.array([boards[0], neighbour, *boards[1:]]))
    assert np.flatnonzero(~apart).tolist() == [1]


def test_lineages_end_without_hope_or_with_enough(monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 300)
    full = extreme.descend(extreme.Lineage(9, 6, 0, 0)).ratings
    monkeypatch.setattr(extreme, "HARD", 0.0)
    few = extreme.descend(extreme.Lineage(9, 6, 0, 0, limit=1)).ratings
    assert 0 < len(few) <= min(extreme.HARVEST, len(full) - 1)
    monkeypatch.setattr(extreme, "HOPES", {50: 1e9})
    monkeypatch.setattr(extreme, "GLEANINGS", 4)
    assert 0 < len(extreme.descend(extreme.Lineage(9, 6, 0, 0)).ratings) <= 4


def test_the_mix_is_met_and_splits_are_disjoint(monkeypatch):
    """Of a mix that short lineages reach; in this process alone, since others would not know of it."""
    monkeypatch.setattr(extreme, "STEPS", 600)
    asked = mix.MIXES["guesses"]._replace(shares=(0.45, 0.45, 0.1, *[0.0] * 4))
    splits = mix.mixed_splits(9, {"train": 40, "test": 20, "validation": 10}, asked, seed=3, processes=1)
    for name, split in splits.items():
        levels = np.bincount(bins_of(split.ratings, (*asked.easy[:-1], *asked.hard)), minlength=len(asked.shares))
        assert (levels == mix.quotas(len(split.inputs), asked.shares)).all(), name
        assert (split.ratings == rate(split.inputs - 1)).all()
    joined = [np.concatenate([getattr(split, key) for split in splits.values()]) for key in ("inputs", "labels")]
    assert len(np.unique(Sudoku(9).signatures(*joined))) == 70
    assert Sudoku(9).valid(*joined).all()
    alone = mix.mixed_splits(9, {"train": 40, "test": 20}, asked, seed=3, processes=1)
    assert all((alone[name].inputs == splits[name].inputs).all() for name in alone)


def test_ratings_out_of_reach_are_given_up(monkeypatch):
    monkeypatch.setattr(extreme, "STEPS", 60)
    monkeypatch.setattr(mix, "PATIENCE", 3)
    with pytest.raises(DatasetError, match=r"3 lineages in a row brought no puzzle rated 5000\+, and 10 are missing"):
        mix.mixed_splits(9, {"train": 10}, mix.of_rating(5000), processes=1)


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(monkeypatch):
    hard = mix.of_rating(5)
    one = mix.mixed_splits(9, {"train": 60}, hard, seed=2, processes=1)["train"]
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    two = mix.mixed_splits(9, {"train": 60}, hard, seed=2, processes=2)["train"]
    assert (one.inputs == two.inputs).all()
    assert (one.ratings == two.ratings).all()
