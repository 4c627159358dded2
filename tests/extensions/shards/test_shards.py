"""Sets made in parts: the same bytes, whatever the number of parts and whatever became of them."""

import itertools
import json
from pathlib import Path

import pytest

from datasets_gen import parallel
from datasets_gen.__main__ import main
from datasets_gen.extensions.extreme import mix
from datasets_gen.extensions.shards.results import Shard, making
from datasets_gen.parallel import ordered_map, share
from datasets_gen.sudoku import generate
from datasets_gen.sudoku.generate import Chunk, random_chunk

SETS = {
    "sudoku": "sudoku --size 6 --train 200 --validation 20 --test 70 --seed 3",
    "clues": "sudoku --size 4 --clues 5 --train 40 --test 9",
    "mix": "sudoku --mix extreme --train 60 --test 5",
    "maze": "maze --size 6 --min-path 8 --train 60 --test 9 --wall-density 0.3 0.4",
    "addition": "addition --digits 2 --test-digits 4 --mixed-digits --noise 0.1 --train 1500 --test 700",
    "queens": "queens --train 12 --test 6",
}


def bytes_of(directory):
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def make(words, directory, *more):
    return main([*words.split(), "--processes", "1", "--output-dir", str(directory), *more])


@pytest.fixture
def quick(monkeypatch):
    """Random puzzles in place of deep ones, which take a minute."""

    def random(task):
        return [mix.Found(mix.DEEP, *found) for found in random_chunk(Chunk(9, None, *task[:3]))]

    monkeypatch.setattr(mix, "deep_puzzles", random)


@pytest.mark.parametrize("family", SETS)
def test_the_number_of_shards_changes_nothing(tmp_path, quick, family):
    assert make(SETS[family], tmp_path / "alone") == 0
    alone = bytes_of(tmp_path / "alone")
    for of in (1, 2, 5):
        directory = tmp_path / f"of {of}"
        for index in range(of):
            assert make(SETS[family], directory, "--shard", f"{index + 1}/{of}") == 0
            assert not directory.exists()
        assert main(["merge", str(directory), "--processes", "1"]) == 0
        assert bytes_of(directory) == alone


def test_a_lost_shard_is_made_again(tmp_path):
    """And so is what a killed process left torn, and all that follows on it."""
    assert make(SETS["sudoku"], tmp_path / "alone") == 0
    for index in (1, 3):
        assert make(SETS["sudoku"], tmp_path / "set", "--shard", f"{index}/3") == 0
    for torn in (tmp_path / "set.shards").glob("*/1-of-3.results"):
        torn.write_bytes(torn.read_bytes()[:-5])
    assert main(["merge", str(tmp_path / "set")]) == 0
    assert bytes_of(tmp_path / "set") == bytes_of(tmp_path / "alone")


def test_a_page_that_has_changed_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(parallel.__file__).with_name("extensions") / "declared/pages/queens.py"
    Path("own.py").write_text(page.read_text().replace('"queens"', '"own"'))
    assert make("own.py --train 2 --test 0", "set", "--shard", "1/2") == 0
    with open("own.py", "a") as page:
        page.write("\n")
    assert main(["merge", "set"]) == 1
    assert "holds shards with sha256 of the page" in capsys.readouterr().err


def test_shards_of_another_set_are_refused(tmp_path, refused):
    words = ["sudoku", "--size", "4", "--train", "8", "--test", "4", "--output-dir", str(tmp_path / "set")]
    assert main([*words, "--shard", "1/2"]) == 0
    refused(
        [*words, "--seed", "1", "--shard", "2/2"], "set.shards holds shards with seed 0, not 1", "repeat their options"
    )


def test_merging_nothing_is_refused(tmp_path, refused):
    refused(["merge", tmp_path / "set"], "no shards at", "set.shards; make them with --output-dir")


@pytest.mark.parametrize("content", ["[]", "{}", '{"generator": 3}'])
def test_a_damaged_list_of_options_is_refused(tmp_path, refused, content):
    (tmp_path / "set.shards").mkdir()
    (tmp_path / "set.shards/options.json").write_text(content)
    refused(["merge", tmp_path / "set"], "options.json names no generator")


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/", "/2", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_refused(tmp_path, capsys, text):
    assert make("sudoku", tmp_path / "set", f"--shard={text}") == 2
    assert f"{text} is no shard; type 1/5 to 5/5" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["shard", "merge"])
def test_an_interrupted_command_goes_on(tmp_path, monkeypatch, capsys, command):
    """Without the tasks that it has finished."""
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
    with monkeypatch.context() as patched:
        patched.setattr(generate, "random_chunk", interrupted)
        assert main(words) == 130
    assert f"{tmp_path / 'set.shards'} keeps what was made" in capsys.readouterr().err
    assert not (tmp_path / "set").exists()
    tasks.append(None)  # from here on none is interrupted
    monkeypatch.setattr(generate, "random_chunk", interrupted)
    assert main(words) == 0
    assert len({*tasks}) == len(tasks)
    if command == "shard":
        assert main(["merge", str(tmp_path / "set"), "--processes", "1"]) == 0
    assert bytes_of(tmp_path / "set") == bytes_of(tmp_path / "alone")


computed = []


def square(number):
    computed.append(number)
    return number**2


def results(shard, count, processes=1):
    """The first results of the numbers from 0 on, and which of these were computed."""
    computed.clear()
    with making(shard):
        found = list(itertools.islice(ordered_map(square, itertools.count(), processes), count))
    return found, sorted(computed)


def test_a_shard_makes_its_own_tasks_once(tmp_path):
    second = Shard(tmp_path, {}, 1, 3)
    assert results(second, 2) == ([1, 16], [1, 4])
    assert results(second, 4) == ([1, 16, 49, 100], [7, 10])


def test_merging_makes_what_is_missing_once(tmp_path):
    assert results(Shard(tmp_path, {}, 1, 3), 3)[1] == [1, 4, 7]
    assert results(Shard(tmp_path, {}, 1, 2), 2)[1] == [3]  # of shards of another number
    merging = Shard(tmp_path, {})
    assert results(merging, 4) == ([0, 1, 4, 9], [0, 2])
    assert results(merging, 10) == ([n**2 for n in range(10)], [5, 6, 8, 9])
    assert results(merging, 10)[1] == []


def test_several_processes_merge_in_order(tmp_path, monkeypatch):
    results(Shard(tmp_path, {}, 1, 3), 5)
    monkeypatch.setattr(parallel, "ALONE_SECONDS", 0.0)
    assert results(Shard(tmp_path, {}), 40, processes=2)[0] == [n**2 for n in range(40)]


@pytest.mark.parametrize("damage", [lambda text: text[:-3], lambda text: text + b"\xff" * 30, lambda text: text + b"1"])
def test_a_torn_end_is_cut_off(tmp_path, damage):
    first = Shard(tmp_path, {}, 0, 2)
    results(first, 3)
    (path,) = tmp_path.glob("*/1-of-2.results")
    path.write_bytes(damage(path.read_bytes()))
    assert results(first, 5)[0] == [0, 4, 16, 36, 64]
    assert results(first, 5) == ([0, 4, 16, 36, 64], [])


def test_a_shard_looks_for_its_share():
    assert share(11) == 11
    with making(Shard(None, {}, 0, 5)):
        assert (share(11), share(10), share(1), share(0)) == (3, 2, 1, 0)
    assert share(11) == 11


def test_options_are_recorded_once(tmp_path):
    results(Shard(tmp_path, {"seed": 3}, 0, 2), 1)
    assert json.loads((tmp_path / "options.json").read_text()) == {"seed": 3}
    assert not list(tmp_path.glob("tmp*"))
