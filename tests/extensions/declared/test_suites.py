"""Puzzles of reasoning-gym and of Pencil Puzzle Bench, from JSON lines into sets."""

import json

import numpy as np
import pytest
from conftest import make_set

from datasets_gen.__main__ import main
from datasets_gen.extensions.declared.importers import bench_board
from datasets_gen.layout import read_split

MINI = [[0, 0, 2, 0], [0, 4, 0, 1], [4, 3, 0, 0], [0, 0, 0, 0]]
SOLVED = [[3, 1, 2, 4], [2, 4, 3, 1], [4, 3, 1, 2], [1, 2, 4, 3]]
LATIN = (np.arange(7)[:, None] + np.arange(7)) % 7 + 1


def gym(kind, puzzle, **more):
    return {"metadata": {"source_dataset": kind, "puzzle": puzzle, **more}}


def bench(kind, code, columns, rows):
    address = f"http://puzz.link/p?{kind}/{columns}/{rows}/{code}"
    return {"pid": kind, "width": columns, "height": rows, "puzzlink_url": address}


def imported(tmp_path, suite, entries, *more):
    source, out = tmp_path / "test.jsonl", tmp_path / "set"
    source.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    status = main(["import", suite, str(source), *more, "--output-dir", str(out)])
    return read_split(out, "test")[1] if status == 0 else status


ENTRY = gym("mini_sudoku", MINI)


@pytest.mark.parametrize(("text", "more"), [
    (json.dumps(ENTRY) + "\n", ()),
    (json.dumps([ENTRY]), ()),
    (json.dumps([ENTRY], indent=2), ()),
    (json.dumps(ENTRY, indent=2), ()),
    (json.dumps({"metadata": json.dumps(ENTRY["metadata"])}), ()),
    (json.dumps({"metadata": {"puzzle": MINI}}), ("--tasks", "mini_sudoku")),
])  # fmt: skip
def test_a_sudoku_of_reasoning_gym(tmp_path, text, more):
    (tmp_path / "test.json").write_text(text)
    out = tmp_path / "set"
    assert main(["import", "reasoning-gym", str(tmp_path / "test.json"), *more, "--output-dir", str(out)]) == 0
    split = read_split(out, "test")[1]
    assert (split.inputs - 1 == np.ravel(MINI)).all()
    assert (split.labels - 1 == np.ravel(SOLVED)).all()


def test_futoshiki_with_signs_and_without(tmp_path):
    like = make_set("futoshiki --train 2 --test 0", tmp_path / "like")
    shown = LATIN.tolist()
    shown[0][0] = shown[2][3] = 0
    signs = [[0, 0, 0, 1, "<"], [2, 3, 3, 3, "<"]]  # 1 < 2 in the first row; 6 < 7 downwards
    entries = [gym("futoshiki", shown, constraints=some) for some in (signs, [])]
    split = imported(tmp_path, "reasoning-gym", entries, "--like", str(like))
    assert (split.labels == LATIN.ravel() + 1).all()
    assert (split.relations[0, :, 1:] == [[0, 1], [17, 24]]).all()
    assert (split.relations[1] == -1).all()
    assert main(["verify", str(tmp_path / "set")]) == 0


def test_queens_have_any_answer(tmp_path):
    like = make_set("queens --train 4 --test 0", tmp_path / "like")
    board = [["_"] * 8 for _ in range(8)]
    board[6][0] = "Q"
    split = imported(tmp_path, "reasoning-gym", [gym("n_queens", board)], "--like", str(like))
    assert split.labels[0, 48] == 3
    assert (split.labels == 3).sum() == 8


def text_of(entry):
    return bench_board(entry)[0]


def test_codes_of_pencil_puzzle_bench(tmp_path):
    digits = text_of(bench("sudoku", "1o6h84k76h9j64i7h4k8h8i53j5h71k14h6o2", 9, 9))
    assert digits[:3] == ["1........", ".6..84...", "..76..9.."]
    akari = text_of(bench("lightup", "..g.lbh52bhbh.g6..g.o.6.h6..o6.67.j.j15.j.l.g0./", 10, 10))
    assert akari[:4] == ["##.#......", "1....0.21.", "...1....#.", "1.##.#...."]
    like = make_set("light-up --train 2 --test 0", tmp_path / "like")
    entries = [bench("lightup", "..g.lbh52bhbh.g6..g.o.6.h6..o6.67.j.j15.j.l.g0./", 10, 10)]
    entries += [bench("lightup", "g0i", 2, 2), bench("tapa", "g1p0n0zzzx", 10, 10)]
    split = imported(tmp_path, "ppbench", entries, "--like", str(like))
    assert split.inputs.shape == (1, 100)  # the board of 2 × 2 is left out
    assert main(["verify", str(tmp_path / "set")]) == 0


@pytest.mark.parametrize(
    ("suite", "entries", "told"),
    [
        ("reasoning-gym", [gym("mini_sudoku", MINI), [1]], "line 2, entry 1: no entry of reasoning-gym (Type"),
        ("reasoning-gym", [gym("tsumego", [])], "holds nothing to read"),
        ("reasoning-gym", [ENTRY, {"metadata": {"puzzle": MINI}}], "line 2 does not state its kind; name it with --ta"),
        ("ppbench", [bench("sudoku", "zzzzg", 9, 9), bench("lightup", "zzzzg", 9, 9)], "--tasks: lightup, sudoku"),
        ("ppbench", [bench("lightup", "-", 9, 9)], "line 1: no entry of ppbench (ValueError"),
        ("ppbench", [bench("lightup", "zzzzg", 9, 9)], "lightup is a declared puzzle; name a set of it: --like"),
        ("ppbench", [bench("sudoku", "zzzz", 9, 9)], "the code has 80 cells, 9x9 are needed"),
        ("ppbench", [bench("sudoku", "zzzzg1", 9, 9)], "the code has 82 cells"),
        ("reasoning-gym", [gym("futoshiki", MINI, constraints=[[0, 0, 0, 2, "<"]])], "joins no two neighbours"),
        ("reasoning-gym", [gym("futoshiki", MINI, constraints=[[0, 0, 0, 1, "="]])], "KeyError: '='"),
        ("reasoning-gym", [gym("mini_sudoku", [[1, 1, 0, 0], *MINI[1:]])], "line 1: the puzzle has no solution"),
        ("reasoning-gym", [gym("mini_sudoku", [[0] * 4] * 4)], "line 1: the puzzle has several solutions"),
        ("reasoning-gym", [], "holds nothing"),
    ],
)
def test_faulty_files(tmp_path, capsys, suite, entries, told):
    assert imported(tmp_path, suite, entries) == 1
    assert told in capsys.readouterr().err
    assert not (tmp_path / "set").exists()
