"""The page of reason play in a real browser. Run with -m browser."""

import json
import re
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from conftest import make_set, output

import reason
from datasets_gen.puzzles import puzzle_of
from reason.data.puzzles import PuzzleData
from reason.extensions.export.onnx import batch_of, torch_answers
from reason.extensions.play.shipped import shown
from reason.models.layout import IMPOSSIBLE
from reason.models.states import precise
from reason.plugins import extensions
from reason.pretrained import FOLDER

pytestmark = pytest.mark.browser
api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[browser]'")
EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SETS = {
    "sudoku": "sudoku",
    "sudoku-6x6": "sudoku --size 6",
    "maze": "maze --size 10",
    "addition": "addition --digits 3 --zero-pad --no-reverse --blank-answer",
}
HARD = "..5..9...6..7.....78..6.9..4......2...85..6.......1..4.3..2...1..79..5.......3..."


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("play") / "play.html"
    output(["play", "--output", str(path), "--no-browser"])
    return path


@pytest.fixture
def opened(file, open_page):
    def at(link="", **options):
        page = open_page(file, link, **options)
        page.locator("#speed").select_option("0")
        return page

    return at


def think(page):
    """Press Think, wait for the end, and return what was computed."""
    page.locator("#play").click()
    return ended(page)


def ended(page):
    api.expect(page.locator("#step")).to_be_enabled(timeout=60_000)
    api.expect(page.locator("#play")).to_have_text(re.compile("Think"), timeout=60_000)
    return page.evaluate("play.state()")


def link(**values):
    return "#" + urlencode(values)


@pytest.mark.parametrize("name", shown())
def test_logits_and_answers_are_those_of_torch(name, opened, tmp_path):
    """Of 20 unseen puzzles: four steps from torch's states, their logits; from the first state on, every answer."""
    run = reason.load(FOLDER / name, device="cpu", training={"precision": "fp32"})
    data = PuzzleData(make_set(f"{SETS[name]} --train 5 --test 20 --seed 7", tmp_path / "set"), "test")
    run.model.add_shape(data.shape)
    questions, (rows, columns) = data.inputs, data.shape.structure.grid
    steps, page = run.config.rollout.trained_steps, opened(link(model=name))
    guides = [0, 1, steps // 2, steps - 1]  # states take long to hand over
    compute = """async ([name, tokens, rows, columns, states, steps]) => {
      const model = play.models.find((one) => one.name === name), boards = [{ rows, columns, tokens }];
      const [said, guided] = [[], []];
      const all = async (list, id) => list.push(Array.from((await play.thinker.step(id)).logits));
      const id = await play.thinker.begin(model, boards, [1], model.drawn.length ? { state: states[0] } : {});
      for (let m = 0; m < steps; m++) await all(said, id);
      for (const state of states) await all(guided, await play.thinker.begin(model, boards, [1], { state }));
      return [said, guided];
    }"""
    assert len(questions) == 20
    for question in questions:
        expected = torch_answers(run.model, batch_of(question[None].long()), steps, run.config.seed)
        states = [{part: z.ravel().tolist() for part, z in expected.before[m].items()} for m in guides]
        given = [name, question.tolist(), rows, columns, states, steps]
        said, guided = (np.array(each, np.float32)[:, None] for each in page.evaluate(compute, given))
        right = expected.logits[guides].ravel()
        there = right > IMPOSSIBLE
        assert np.abs(guided.ravel() - right)[there].max() <= 1e-4 * np.abs(right[there]).max()
        assert (said.reshape(expected.logits.shape).argmax(-1) == expected.logits.argmax(-1)).all()


@pytest.mark.skipif("declared" not in extensions(), reason="extension declared")
def test_a_puzzle_of_a_declared_set_is_drawn_and_answered_as_by_torch(open_page, tmp_path):
    made, run, out = (tmp_path / name for name in ("set", "run", "page.html"))
    make_set("killer --train 4 --test 3 --seed 1", made)
    words = ["training.steps=1", "model.initial=buffer", "model.num_layers=1", "model.h_cycles=1", "model.l_cycles=2"]
    output(["train", "killer", f"data={made}", f"run={run}", "init_from=none", *words])
    output(["play", str(run), "--output", str(out), "--no-browser"])
    page = open_page(out, link(model="run"))
    page.locator("#speed").select_option("0")
    page.locator("#examples button", has_text="puzzle 2").click()
    model, data = reason.load(run, device="cpu", training={"precision": "fp32"}).model, PuzzleData(made, "test")
    batch = data.take(torch.tensor([1]))
    drawing = puzzle_of(data.metadata).draw(batch.inputs[0].numpy(), None, data.instances[1])
    assert page.locator("#drawing").text_content() == drawing
    state = think(page)
    frames = state["tries"][0]["frames"]
    exact, here = (torch_answers(each, batch, len(frames), 0).logits[:, 0] for each in (precise(model), model))
    possible = exact > IMPOSSIBLE
    differs = np.where(possible, abs(here - exact), 0).max((1, 2)) > 1e-3 * abs(exact[possible]).max()
    near = int(differs.argmax()) if differs.any() else len(frames)  # rounding grows by a factor a step, untrained
    found = np.array([frame["tokens"] for frame in frames])
    assert (found == exact.argmax(-1))[:near].all()
    assert near >= 8
    right = (found == batch.labels.numpy()).all(-1).tolist()
    assert [frame["holds"] for frame in frames] == right
    page.locator("#board i").nth(0).click()
    page.locator("#pad button", has_text="3").click()
    assert page.evaluate("play.state().question.answer") is None  # of other clues
    assert think(page)["tries"][0]["frames"][0]["holds"] is None


def answers(state, characters, columns):
    """The answers of the first try after each step, in lines."""
    texts = ["".join(characters[token] for token in frame["tokens"]) for frame in state["tries"][0]["frames"]]
    return [[text[i : i + columns] for i in range(0, len(text), columns)] for text in texts]


def test_a_newspaper_puzzle_is_solved_as_by_reason_solve(opened):
    page = opened()
    page.locator("#text").fill(EASY)
    page.locator("#typed button").click()
    state = think(page)
    told = json.loads(output(["solve", "sudoku", EASY, "--json"]))
    assert answers(state, "..123456789", 9)[-1] == told["steps"][-1]["answer"]
    assert "The rules hold since step" in page.locator("#said").inner_text()
    assert page.locator("#board i.given").count() == sum(character != "." for character in EASY)
    assert page.locator("#board i.wrong").count() == 0


def test_a_maze_is_painted_and_solved(opened):
    page = opened(link(model="maze"))
    page.locator("#examples button", has_text="empty").click()
    cells, walls = page.locator("#board i"), range(15 * 4, 15 * 4 + 14)  # one opening at the right
    boxes = [cells.nth(i).bounding_box() for i in (walls[0], walls[-1])]
    page.mouse.move(boxes[0]["x"] + 5, boxes[0]["y"] + 5)
    page.mouse.down()
    page.mouse.move(boxes[1]["x"] + 5, boxes[1]["y"] + 5, steps=60)
    page.mouse.up()
    typed = page.locator("#text").input_value()
    assert typed.split("\n")[4] == "#" * 14 + "."
    state = think(page)
    told = json.loads(output(["solve", "maze", typed, "--json", "--restarts", "1", "training.precision=fp32"]))
    steps = [step["answer"] for step in told["steps"]]
    assert answers(state, "?# SGo", 15)[: len(steps)] == steps
    page.locator("#pad button", has_text="goal").click()
    cells.nth(7).click()
    assert page.locator("#text").input_value().count("G") == 1
    assert page.evaluate("play.state().tries.length") == 0  # what was computed belonged to another maze


def test_puzzles_without_an_answer_and_what_is_none_are_told(opened):
    page = opened(link(model="sudoku", puzzle="55" + "." * 79))
    said = page.locator("#said")
    assert said.inner_text().startswith("The puzzle contradicts itself: the marked digits stand twice in a row,")
    assert page.locator("#board i.wrong").count() == 2
    for text, words in {"12": "2 cells, 81 are needed", "x" * 81: "“x” is no cell", "": "0 cells"}.items():
        page.locator("#text").fill(text)
        page.locator("#typed button").click()
        assert words in said.inner_text()
        assert page.evaluate("play.state().question.tokens.filter((token) => token > 1).length") == 2  # it stays
    page.goto(page.url.partition("#")[0] + link(model="maze", puzzle="S#.\n##.\n..G"))
    api.expect(said).to_contain_text("no path leads from S to G")


def test_tries_side_by_side_until_the_rules_hold(opened):
    page = opened(link(model="sudoku", puzzle=HARD, steps=3))  # too few for the first try
    page.locator("#until").click()
    api.expect(page.locator("#said")).to_have_text(re.compile("The rules hold since"), timeout=120_000)
    state = ended(page)
    assert len({try_["number"] for try_ in state["tries"]}) == len(state["tries"]) > 1
    asked = np.array(state["question"]["tokens"])
    for last in (one["frames"][-1] for one in state["tries"]):
        assert not last["holds"] or (np.array(last["tokens"])[asked > 1] == asked[asked > 1]).all()
    tiles = page.locator("#tiles button")
    assert tiles.count() == len(state["tries"])
    tiles.last.click()
    assert tiles.last.get_attribute("aria-pressed") == "true"
    numbers = [one["number"] for one in state["tries"]]
    page.locator("#another").click()
    assert ended(page)["tries"][-1]["number"] > max(numbers)


def test_an_erased_cell_is_open_again_and_another_puzzle_is_begun_anew(opened):
    page = opened(link(model="sudoku", puzzle=EASY))
    asked = page.evaluate("play.state().question.tokens")
    page.locator("#board i").nth(2).click()
    page.keyboard.press("4")
    page.keyboard.press("0")
    assert page.evaluate("play.state().question.tokens") == asked
    page.locator("#play").click()
    page.locator("#examples button", has_text="hardest").click()  # while the network is loaded
    state = think(page)
    frame = state["tries"][0]["frames"][0]["tokens"]
    assert all(token in (1, found) for token, found in zip(state["question"]["tokens"], frame, strict=True))
    page.locator("#step").press("Enter")
    api.expect(page.locator("#step")).to_be_focused()


def test_a_network_that_could_not_begin_begins_at_the_next_press(opened):
    page = opened(link(model="sudoku", puzzle=EASY))
    start = page.evaluate("play.models[0].files.start")
    page.evaluate("play.models[0].files.start = btoa('none')")
    page.locator("#play").click()
    api.expect(page.locator("#said")).to_contain_text("Press Think to begin again", timeout=60_000)
    page.evaluate("(start) => { play.models[0].files.start = start; }", start)
    assert think(page)["tries"][0]["frames"]


def test_a_link_holds_the_puzzle_and_a_crafted_one_is_refused(opened):
    page = opened(link(model="maze", puzzle="S..\n##.\nG..", steps=7))
    state = page.evaluate("play.state()")
    assert (state["question"]["rows"], state["model"]) == (3, "maze")
    assert page.locator("#steps").input_value() == "7"
    markup = "<img src=x onerror=alert(1)>"
    page = opened(link(model=markup, puzzle=markup, steps="<b>"))
    assert "The link names a model that this page does not hold" in page.locator("#said").inner_text()
    page = opened(link(model="sudoku", puzzle=markup, steps="<b>"))
    assert page.locator("#said").inner_text() == "The puzzle of the link: “<” is no cell of this puzzle."
    assert page.locator("main img").count() == 0
    assert page.locator("#steps").input_value() == "64"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_a_desk_and_a_phone(width, scheme, opened):
    options = {"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "has_touch": width < 400}
    for name in shown():
        page = opened(link(model=name), **options)
        before = page.locator("#board").bounding_box()
        assert think(page)["tries"][0]["frames"]
        assert page.locator("#board").bounding_box() == before  # nothing moves
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        rows = page.evaluate("new Set([...document.querySelectorAll('#pad button')].map((one) => one.offsetTop)).size")
        assert rows <= 1, name
        unnamed = "[...document.querySelectorAll('button, input, select, textarea, [role=grid]')].filter((one) => "
        unnamed += "!one.labels?.length && !one.textContent.trim() && !one.getAttribute('aria-label')).length"
        assert page.evaluate(unnamed) == 0
