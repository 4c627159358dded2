"""Every plot, table, colour and file of a report, from results that a tiny model really gave."""

import csv
import itertools
import json
import re
from base64 import b64decode
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from evaluators import read, read_set, small
from PIL import Image
from rich.console import Console

from reason.data.puzzles import PuzzleData
from reason.evaluation.studies.boards import Boards
from reason.evaluation.studies.by_step import BY_STEP
from reason.evaluation.studies.training import TRAINING
from reason.evaluation.suite import CONSUMERS, print_results, write_report
from reason.report.chart import Chart, save_png, svg
from reason.report.compare import charts as compared_charts
from reason.report.compare import differences, letter, notes_on, write_comparison
from reason.report.palette import DARK, LIGHT, styled
from reason.report.section import headline, shown_steps


def reciting(data, answers):
    """A model that gives these answers (B or 1, S) to every question."""
    model, logits = small(data.shape), torch.nn.functional.one_hot(answers.long(), data.shape.vocab_size)
    readout = model.readout

    def recite(state, context, step=None):
        return readout(state, context)._replace(logits=10.0 * logits[: len(state[0])].expand(len(state[0]), -1, -1))

    model.readout = recite
    return model


def check(folder, results):
    """The files hold what the results say; the page is whole, fetches nothing, and holds every section."""
    write_report(folder, results)
    told = json.loads((folder / "results.json").read_text())
    assert told == json.loads(json.dumps({k: v for k, v in results.items() if k not in ("boards", "training")}))
    rows = list(csv.DictReader((folder / "accuracy_by_step.csv").open()))
    assert [float(row["exact"]) for row in rows] == pytest.approx(results["exact_by_step"], abs=1e-6)
    page = (folder / "report.html").read_text()
    assert page.lstrip().startswith("<!doctype html>")
    assert not re.search(r"https?:|src=\"(?!data:)|@import|url\(", page)  # nothing is fetched
    assert "runs &lt;x&gt; $a$" in page
    assert headline(results) in page.replace("&amp;", "&")
    console = Console(record=True, width=160)
    print_results(results, console)
    assert console.export_text().count("%") >= 4
    return page


def test_everything(whole, tmp_path):
    page = check(tmp_path, whole)
    assert headline(whole | {"trained_steps": whole["steps"]}).count(f"at step {whole['steps']}") == 1
    assert {path.name for path in tmp_path.iterdir()} >= {
        "results.json", "boards.json", "report.html", "accuracy_by_step.csv", "accuracy_by_step.png", "training.png",
    }  # fmt: skip
    for words in ("step by step", "Training", "Computed in bfloat16."):
        assert words in page


def test_all_and_none_solved_and_a_set_without_rules(sudoku_4x4, tmp_path):
    none = read_set(sudoku_4x4, 1)
    data = PuzzleData(sudoku_4x4, "test")
    data.inputs, data.labels = (tokens[:1].expand(12, -1) for tokens in (data.inputs, data.labels))
    every = read(reciting(data, data.labels[:1]), data, 3)
    for results, share in ((none, 0.0), (every, 1.0)):
        assert results["exact_by_step"][-1] == results["valid_by_step"][-1] == share
        check(tmp_path, results)
    data = PuzzleData(sudoku_4x4, "test")
    data.metadata = data.metadata.model_copy(update={"task": {"name": "a family of one's own"}})
    results = read(small(data.shape), data, 2)
    assert results["valid_by_step"] is None
    assert "boards" not in results
    check(tmp_path, results)


def test_valid_counts_what_the_label_does_not(sudoku_4x4, monkeypatch):
    data = PuzzleData(sudoku_4x4, "test")
    monkeypatch.delitem(CONSUMERS, Boards)
    data.inputs = torch.ones_like(data.inputs)  # every full grid answers an empty question
    other = torch.roll(data.labels, 1, 0)
    results = read(reciting(data, other), data, 2)
    equal = float((other == data.labels).all(1).float().mean())
    assert (results["valid_by_step"], results["exact_by_step"]) == ([1.0, 1.0], [equal, equal])
    assert equal < 1


def test_runs_compared(whole, tmp_path):
    evaluations = [{k: v for k, v in whole.items() if k != "boards"} | {"run": name} for name in ("a", "b<c>")]
    assert notes_on(evaluations) == []
    settings = {"model.activation": ["silu", "tanh"], "seed": [0, ...]}
    assert list(differences(evaluations, settings).rows) == [
        ["model.activation", "A: silu; B: tanh"], ["seed", "A: 0; B: –"],
    ]  # fmt: skip
    write_comparison(tmp_path, evaluations, settings)
    told = json.loads((tmp_path / "comparison.json").read_text())
    assert told["differences"] == {"model.activation": ["silu", "tanh"], "seed": [0, None]}
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".html"}
    page = (tmp_path / "comparison.html").read_text()
    assert "b&lt;c&gt;" in page
    assert not re.search(r"https?:|src=\"(?!data:)", page)
    other = evaluations[1] | {"dataset": "data/other"}
    assert notes_on([evaluations[0], other])[0].startswith("different sets: data/other, data/set")
    one, changed = (results | {"fingerprint": digest} for results, digest in zip(evaluations, "01", strict=True))
    split = f"{one['split']} split of {one['dataset']}"
    assert notes_on([one, changed]) == [f"the {split} held other puzzles at one evaluation than at another"]
    assert notes_on([one, evaluations[1] | {"fingerprint": None}]) == notes_on([one, one]) == []


@pytest.fixture(scope="module")
def page_file(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_report(folder, whole)
    return folder / "report.html"


class Tags(HTMLParser):
    """Takes a tag off when it is closed."""

    void = ("meta", "link", "input", "br", "img")

    def __init__(self):
        super().__init__()
        self.opened = []

    def handle_starttag(self, tag, attrs):
        self.opened.extend([tag] if tag not in self.void else [])

    def handle_endtag(self, tag):
        assert tag in self.void or self.opened.pop() == tag


def test_the_page_is_whole_with_its_boards_first_and_says_what_a_chart_shows(page_file):
    page, tags = page_file.read_text(), Tags()
    tags.feed(page)
    assert tags.opened == []
    assert re.search(r'<main[^>]*>\s*<\w+ [^>]*id="viewer"', page)
    assert re.search(r'<input [^>]*type="range"[^>]*aria-label="supervision step"', page)
    assert "prefers-reduced-motion" in page[page.index("<script>") :]
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    captions = [re.search(r"<figcaption[^>]*>(.*?)</figcaption>", figure, re.DOTALL)[1].strip() for figure in figures]
    assert len(set(captions)) == len(figures) >= 4
    for figure, caption in zip(figures, captions, strict=True):
        assert re.search(rf'alt="{re.escape(caption)}: ', figure)
        assert b"<svg" in b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]+)", figure)[1])
    pictures = [file.read_bytes() for file in page_file.parent.glob("*.png")]
    assert pictures
    assert all(picture.startswith(b"\x89PNG\r") for picture in pictures)
    section = next(text for text in page.split("<section")[1:] if "Accuracy" in text.partition("</h2>")[0])
    shown, unfolded = section.partition("</section>")[0].split("<details")
    tables = [[int(step) for step in re.findall(r"<tr>\s*<td[^>]*>(\d+)", part)] for part in (shown, unfolded)]
    assert tables == [shown_steps(5, 2), [1, 2, 3, 4, 5]]
    assert all('scope="col"' in head for head in re.findall(r"<th\b[^>]*", shown))


@pytest.fixture
def axes():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def lines(axes):
    found = {str(line.get_label()): line.get_data() for line in axes.get_lines()}
    return {label: (np.asarray(x, float), np.asarray(y, float)) for label, (x, y) in found.items() if label[:1] != "_"}


def test_accuracy_is_drawn_plain_and_as_an_error(whole, axes):
    results = whole | {"exact_by_step": [0.25, 0.5, 0.75, 11 / 12, 1.0]}
    curve, error = BY_STEP.charts["accuracy_by_step"](results)
    curve.draw(axes)
    assert lines(axes)["exact"][1].tolist() == results["exact_by_step"]
    assert lines(axes)["cells"][1].tolist() == results["cell_by_step"]
    assert axes.get_yscale() == "linear"
    axes.clear()
    error.draw(axes)
    assert axes.get_yscale() == "log"
    drawn = lines(axes)["exact"][1]
    assert drawn[:4] == pytest.approx(1 - np.array(results["exact_by_step"][:4]))
    assert drawn[4] == 0.5 / results["puzzles"]  # none is wrong: below one puzzle
    axes.figure.canvas.draw()
    assert {"10%", "100%"} <= {text.get_text() for text in axes.get_yticklabels()}


def test_the_training_curve_is_that_of_the_metrics(whole, axes):
    loss, exact = TRAINING.charts["training"](whole)
    loss.draw(axes)
    assert axes.get_yscale() == "log"
    assert axes.get_lines()[0].get_xydata().tolist() == whole["training"]["loss"]
    axes.clear()
    exact.draw(axes)
    assert {label: y.tolist() for label, (_, y) in lines(axes).items()} == {"training": [0.25], "validation": [0, 0.5]}
    assert "0.5 at step 4" in loss.alt_text
    assert exact.alt_text == "training 25.0% at step 4, 25.0% at step 4; validation 0.0% at step 2, 50.0% at step 4"


def test_a_png_holds_all_charts_of_a_plot_and_no_text_is_mathematics(tmp_path):
    """Names of runs hold $ and _, and ticks of logarithms are not left as TeX."""

    def draw(axes):
        axes.plot([1, 2], [1e-9, 1], label="a$b_{c}$")
        axes.legend()

    assert "a$b_{c}$" in svg(Chart("t", "s", draw))
    save_png([Chart("a", "nothing", lambda axes: None)] * 3, tmp_path / "three.png")
    with Image.open(tmp_path / "three.png") as picture:
        assert picture.size == (round(2 * 4.6 * 150), round(2 * 3.2 * 150))


def test_curves_of_many_runs_have_labels_and_differ_in_more_than_colour(whole, axes):
    curves, _ = compared_charts([whole | {"run": f"r{i}"} for i in range(30)])
    curves.draw(axes)
    assert lines(axes).keys() == {letter(i) for i in range(30)}
    assert [letter(i) for i in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
    assert len({(line["marker"], line["linestyle"]) for line in map(styled, range(32))}) == 32


def luminance(colour):
    """WCAG 2's relative luminance of an sRGB colour."""
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_is_readable(scheme):
    """4.5:1 by WCAG 2, of everything that is written: text, labels, wrong cells, also on changed and given ones."""
    written = [name for name in scheme if name.startswith(("--ink", "--soft", "--series", "--accent", "--wrong"))]
    marked = [("--ink", "--changed"), ("--ink", "--given"), ("--wrong", "--given")]
    for name, under in [*itertools.product(written, ("--paper", "--card")), *marked]:
        low, high = sorted(map(luminance, (scheme[name], scheme[under])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (name, under)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "height", "scheme"), [(1200, 900, "light"), (390, 844, "dark")])
def test_the_page_opens_and_its_slider_moves(width, height, scheme, page_file, open_page):
    viewport = {"width": width, "height": height}
    page = open_page(page_file, viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
    board, slider, caption = page.locator(".board"), page.locator("#step"), page.locator(".said")
    assert "the question" in caption.inner_text()
    assert page.locator(".play").get_attribute("aria-label") == "play"  # reduced motion: it waits
    before = board.inner_text()
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert "step 1 of 5" in caption.inner_text()
    assert board.inner_text() != before
    assert board.locator("i.changed").count() > 0
    slider.fill("5")
    assert "step 5 of 5" in caption.inner_text()
    for button in page.locator(".picks button").all():
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert slider.input_value() == "0"
    page.locator(".play").click()
    page.wait_for_function("document.getElementById('step').value === '5'", timeout=10_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing pushes the page sideways
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(251, 250, 247)" if scheme == "light" else "rgb(22, 24, 28)"
    )
