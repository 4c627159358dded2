"""CSV and JSON lines as people have them: read right, or refused with file, row and reason."""

import codecs
from pathlib import Path

import numpy as np
import pytest

from datasets_gen.__main__ import main
from datasets_gen.layout import read_split

FIXTURES = Path(__file__).parent / "fixtures"
SUDOKU = (FIXTURES / "sudoku.csv").read_bytes().replace(b"\r\n", b"\n")
DEEP = "[" * 100_000
BOARD, ANSWER = "." * 16, "1" * 16


@pytest.mark.parametrize(
    "content",
    [
        SUDOKU,
        codecs.BOM_UTF8 + SUDOKU,
        SUDOKU.replace(b"\n", b"\r\n"),
        codecs.BOM_UTF8 + SUDOKU.replace(b"\n", b"\r\n"),
    ],
    ids=["plain", "byte order mark", "CRLF", "both"],
)
def test_csv_of_any_editor_comes_out_again_byte_for_byte(tmp_path, content):
    (tmp_path / "file.csv").write_bytes(content)
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "set")]) == 0
    metadata, split = read_split(tmp_path / "set", "test")
    assert len(metadata.sources) > 1
    assert split.ratings.dtype == np.int32
    assert main(["export", str(tmp_path / "set"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_bytes() == content


HEAD = "source,question,answer,rating\n"
LATIN = (HEAD + f"a,{BOARD},{ANSWER},1\nMöller,{BOARD},{ANSWER},1\n").encode("latin-1")


ROW = f"a,{BOARD},{ANSWER},1\n"


@pytest.mark.parametrize(("content", "messages"), [
    ((HEAD + ROW).encode("utf-16"), ["line 1", "UTF-16"]),
    ((HEAD + ROW).encode("utf-16-le"), ["line 1", "UTF-16"]),
    (LATIN, ["line 3", "byte 0xf6 is not UTF-8"]),
    (HEAD + ROW + f"a,{'.' * 1_000_000},{ANSWER},1\n", ["line 3", "field larger than"]),
    (HEAD + ROW + f'"a,{BOARD},{ANSWER},1\n', ["line 3", "no CSV"]),
    (HEAD + ROW + f"a,b,{BOARD},{ANSWER},1\n", ["line 3", "5 fields, 4 expected"]),
    (HEAD + f"a,{BOARD}\n", ["line 2", "2 fields, 4 expected"]),
    (HEAD.replace("source", "answer") + ROW, ["line 1", "a column stands twice"]),
    *((HEAD + f"a,{BOARD},{ANSWER},{rating}\n", ["line 2", f"{rating!r} is no number"]) for rating in ("nan", "easy")),
    *((HEAD + f"a,{BOARD},{ANSWER},{rating}\n", ["line 2", "more digits than"]) for rating in ("1e999", 2**53 + 1)),
    (HEAD + f"a,{BOARD},{ANSWER},-1\n", ["line 2", "rating -1 is negative"]),
    (HEAD, ["holds no puzzle"]),
    (HEAD + "a,,,1\n", ["0 cells", "Sudoku size 0 is unknown"]),
    (HEAD + f"a,{'.' * 25},{'1' * 25},1\n", ["25 cells", "Sudoku size 5 is unknown; sizes are 4, 6, 9"]),
    (HEAD + f"a,{BOARD},{'1' * 15},1\n", ["line 2: answer has 15 cells"]),
    (HEAD + f"a,{'.' * 15}５,{ANSWER},1\n", ["puzzle 1 holds '５' in cell 16"]),
    (HEAD + f"a,7{'.' * 15},{ANSWER},1\n", ["question of puzzle 1 holds '7'"]),
    ("x" * 100_000, ["line 1: no column question or answer"]),
    ("source,question\n,12\n", ["no column answer"]),
])  # fmt: skip
def test_faulty_csv(tmp_path, refused, content, messages):
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(["import", "sudoku-csv", path, "--output-dir", tmp_path / "set"], path, *messages)


@pytest.mark.parametrize(("row", "message"), [("xxxx,####,3", "holds 'x' in cell 1"), ("###,###,3", "no square board")])
def test_faulty_mazes(tmp_path, refused, row, message):
    (tmp_path / "file.csv").write_text(f"question,answer,rating\n{row}\n")
    refused(["import", "maze-csv", tmp_path / "file.csv", "--output-dir", tmp_path / "set"], message)


def test_ratings_keep_their_digits_and_one_another(tmp_path, capsys):
    rows = ["3.25", "", "0.1", "12345678901.5", "0.30000000000000004", "7"]
    content = HEAD + "".join(f"s,{BOARD},{ANSWER},{rating}\n" for rating in rows)
    (tmp_path / "file.csv").write_text(content)
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "set")]) == 0
    _, split = read_split(tmp_path / "set", "test")
    assert split.ratings.tolist() == pytest.approx([float(r or "nan") for r in rows], rel=0, nan_ok=True)
    assert main(["export", str(tmp_path / "set"), "--output", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").read_text() == content
    assert main(["show", str(tmp_path / "set"), "--index", "1"]) == 0
    shown = capsys.readouterr().out
    assert "not rated" in shown
    assert "from 0.1 to 1.23457e+10" in shown
    (tmp_path / "file.csv").write_text(HEAD + f"s,{BOARD},{ANSWER},4000000000\n")
    assert main(["import", "sudoku-csv", str(tmp_path / "file.csv"), "--output-dir", str(tmp_path / "large")]) == 0
    assert read_split(tmp_path / "large", "test")[1].ratings.tolist() == [4_000_000_000]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"num1": 1.5, "num2": 2.5, "sum": 4}', "num1 is 1.5"),
        ('{"num1": 1.0, "num2": 2, "sum": 3}', "num1 is 1.0"),
        ('{"num1": 1, "num2": Infinity, "sum": 3}', "num2 is inf"),
        ('{"num1": NaN, "num2": 1, "sum": 3}', "num1 is nan"),
        ('{"num1": true, "num2": 1, "sum": 2}', "num1 is True"),
        ('{"num1": "1", "num2": 1, "sum": 2}', "num1 is '1'"),
        ('{"num1": -1, "num2": 1, "sum": 0}', "num1 is -1"),
        ('{"num1": [[1]], "num2": 1, "sum": 0}', "num1 is a list"),
        ('{"num1": 1, "num2": 1, "sum": 2, "answer": 3}', "1 + 1 is not 3"),
        ('{"num1": 1, "num2": 1, "sum": 2, "expression": "1 + 2"}', "expression '1 + 2' is not num1 + num2"),
        ('{"num1": 1, "num2": 1}', "neither sum nor answer"),
        ('{"num1": 1, "sum": 1}', "no num2"),
        (f'{{"num1": 1{"0" * 5000}, "num2": 1, "sum": 1}}', "digits"),
        ('{"num1": 1,', "line 3, column 1"),
        (f'{{"num1": 1{"0" * 1000}, "num2": 1, "sum": 1{"0" * 999}1}}', "more than 1000 digits"),
        ("[1, 2]", "no object"),
        (DEEP, "nested too deeply"),
    ],
)
def test_faulty_sums(tmp_path, refused, line, message):
    path = tmp_path / "file.jsonl"
    path.write_text('{"num1": 1, "num2": 2, "sum": 3}\n\n' + line + "\n")
    refused(["import", "addition-jsonl", path, "--output-dir", tmp_path / "set"], f"{path}, line 3", message)


def test_sums_as_the_code_of_stars_reads_them(made, tmp_path):
    rows = '{"num1": 95, "num2": 17, "expression": "95 + 17", "answer": 112}\r\n\r\n'
    (tmp_path / "file.jsonl").write_bytes(codecs.BOM_UTF8 + rows.encode())
    made("import addition-jsonl", tmp_path / "file.jsonl")
