"""Sets made in parts: the same bytes, whatever the number of parts and whatever became of them."""

import itertools
from pathlib import Path

import pytest
from survivors import snapshot
from works import computed, square

from datasets_gen import parallel
from datasets_gen.__main__ import main
from datasets_gen.extensions.extreme import mix
from datasets_gen.extensions.shards.results import Shard, making
from datasets_gen.parallel import ordered_map, share
from datasets_gen.sudoku.generate import random_chunk

SETS = {
    "sudoku": "sudoku --size 6 --train 200 --validation 20 --test 70 --seed 3",
    "mix": "sudoku --mix extreme --train 30 --test 3",
    "maze": "maze --size 6 --min-path 8 --train 60 --test 9 --wall-density 0.3 0.4",
    "addition": "addition --digits 2 --test-digits 4 --mixed-digits --train 1500 --test 700",
    "queens": "queens --train 6 --test 3",
}


def make(words, directory, *more):
    return main([*words.split(), "--processes", "1", "--output-dir", str(directory), *more])


@pytest.mark.parametrize("family", SETS)
def test_the_number_of_shards_changes_nothing(tmp_path, monkeypatch, family):
    monkeypatch.setattr(mix, "deepen", mix.random_puzzles)  # in place of deep puzzles, which take a minute
    monkeypatch.setattr(mix, "few_clues", lambda count, rng: [*map(tuple, mix.random_puzzles(count, rng))])
    monkeypatch.setattr(mix, "FEWEST", 8)
    assert make(SETS[family], tmp_path / "alone") == 0
    for of in (1, 3) if family == "sudoku" else (3,):
        directory = tmp_path / f"of {of}"
        for index in range(of):
            assert make(SETS[family], directory, "--shard", f"{index + 1}/{of}") == 0
            assert not directory.exists()
        assert main(["merge", str(directory), "--processes", "1"]) == 0
        assert snapshot(directory) == snapshot(tmp_path / "alone")


def test_shards_of_another_set_or_page_are_refused(tmp_path, monkeypatch, refused):
    words = ["sudoku", "--size", "4", "--train", "8", "--test", "4", "--output-dir", str(tmp_path / "set")]
    refused(["merge", "."], ".shards; make them with --output-dir . ")
    refused(["merge", tmp_path / "set"], "no shards at", "set.shards; make them with --output-dir")
    assert main([*words, "--shard", "1/2"]) == 0
    refused([*words, "--seed", "1", "--shard", "2/2"], "set.shards has shards with seed 0, not 1", "repeat their")
    monkeypatch.chdir(tmp_path)
    page = Path(parallel.__file__).with_name("extensions") / "declared/pages/queens.py"
    Path("own.py").write_text(page.read_text().replace('"queens"', '"own"'))
    assert make("own.py --train 2 --test 0", "own", "--shard", "1/2") == 0
    with open("own.py", "a") as page:
        page.write("\n")
    refused(["merge", "own"], "has shards with sha256 of the page")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/2/3"])
def test_what_is_no_shard_is_refused(tmp_path, capsys, text):
    assert make("sudoku", tmp_path / "set", f"--shard={text}") == 2
    assert f"{text} is not a shard; type 1/5 to 5/5" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["shard", "merge"])
def test_an_interrupted_command_goes_on(tmp_path, monkeypatch, command):
    tasks = []

    def interrupted(chunk):
        if len(tasks) == 2:
            raise KeyboardInterrupt
        tasks.append(chunk)
        return random_chunk(chunk)

    assert make(SETS["sudoku"], tmp_path / "alone") == 0
    words = [*SETS["sudoku"].split(), "--processes", "1", "--output-dir", str(tmp_path / "set"), "--shard", "1/1"]
    if command == "merge":
        assert main([*words[:-1], "2/2"]) == 0
        words = ["merge", str(tmp_path / "set"), "--processes", "1"]
    monkeypatch.setattr(interrupted, "__qualname__", "random_chunk", raising=False)
    monkeypatch.setattr(interrupted, "__module__", random_chunk.__module__)
    monkeypatch.setattr("datasets_gen.sudoku.generate.random_chunk", interrupted)
    assert main(words) == 130
    assert not (tmp_path / "set").exists()
    tasks.append(None)  # from here on none is interrupted
    assert main(words) == 0
    assert len({*tasks}) == len(tasks)
    if command == "shard":
        assert main(["merge", str(tmp_path / "set"), "--processes", "1"]) == 0
    assert snapshot(tmp_path / "set") == snapshot(tmp_path / "alone")


def results(shard, count, processes=1):
    """The first results of the numbers from 0 on, and which of these were computed."""
    computed.clear()
    with making(shard):
        found = list(itertools.islice(ordered_map(square, itertools.count(), processes), count))
    return found, sorted(computed)


def test_every_task_is_computed_once(tmp_path, monkeypatch):
    second = Shard(tmp_path, {}, 1, 3)
    assert results(second, 2) == ([1, 16], [1, 4])
    assert results(second, 3) == ([1, 16, 49], [7])
    assert results(Shard(tmp_path, {}, 1, 2), 2)[1] == [3]  # of shards of another number
    merging = Shard(tmp_path, {})
    assert results(merging, 4) == ([0, 1, 4, 9], [0, 2])
    assert results(merging, 10) == ([n**2 for n in range(10)], [5, 6, 8, 9])
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    assert results(merging, 40, processes=2)[0] == [n**2 for n in range(40)]


def test_a_shard_looks_for_its_share():
    assert share(11) == 11
    with making(Shard(None, {}, 0, 5)):
        assert (share(11), share(10), share(1), share(0)) == (3, 2, 1, 0)
    assert share(11) == 11
