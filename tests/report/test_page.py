"""The page as a browser reads it: its order, its tables, its pictures and what they say."""

from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path
from typing import Self

import pytest

from reason.evaluation.suite import write_report
from reason.report.section import shown_steps

VOID = {"meta", "link", "input", "br", "img"}


class Node:
    """An element: its name, attributes, children and text."""

    def __init__(self, name: str, attributes: dict[str, str | None]):
        self.name, self.attributes = name, attributes
        self.children: list[Self] = []
        self.text = ""

    def all(self, name: str) -> list[Self]:
        found = [child for child in self.children if child.name == name]
        return found + [deeper for child in self.children for deeper in child.all(name)]


class Tree(HTMLParser):
    """Builds it; an end tag that closes nothing is a fault."""

    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("", {})]
        self.order: list[Node] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        self.order.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop().name == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data


@pytest.fixture(scope="module")
def tree(whole: dict, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    folder: Path = tmp_path_factory.mktemp("page")
    write_report(folder, whole)
    found = Tree()
    found.feed((folder / "report.html").read_text())
    assert len(found.open) == 1  # everything is closed
    return found


def test_the_boards_come_first(tree: Tree) -> None:
    (main,) = tree.open[0].all("main")
    assert main.children[0].attributes["id"] == "viewer"
    (slider,) = main.children[0].all("input")
    assert slider.attributes["type"] == "range"
    assert slider.attributes["aria-label"] == "supervision step"
    script = next(node for node in tree.open[0].all("script") if "type" not in node.attributes)
    assert "prefers-reduced-motion" in script.text


def test_every_chart_says_what_it_shows(tree: Tree) -> None:
    figures = tree.open[0].all("figure")
    assert len({figure.all("figcaption")[0].text for figure in figures}) == len(figures) >= 4
    for figure in figures:
        (image,), (caption,) = figure.all("img"), figure.all("figcaption")
        assert str(image.attributes["alt"]).startswith(f"{caption.text}: ")
        drawing = b64decode(str(image.attributes["src"]).removeprefix("data:image/svg+xml;base64,"))
        assert b"<svg" in drawing


def test_tables_show_steps_that_double_and_unfold_to_all(whole: dict, tree: Tree) -> None:
    section = next(
        node for node in tree.open[0].all("section") if node.all("h2")[:1] and "Accuracy" in node.all("h2")[0].text
    )
    first, unfolded = section.all("table")
    (details,) = section.all("details")
    assert details.all("table") == [unfolded]

    def steps(table: Node) -> list[int]:
        return [int(row.all("td")[0].text.split()[0]) for row in table.all("tr") if row.all("td")]

    assert steps(first) == [1, 2, 4, 5] == shown_steps(5, 2)
    assert steps(unfolded) == [1, 2, 3, 4, 5]
    assert all(cell.attributes.get("scope") == "col" for cell in first.all("th"))
