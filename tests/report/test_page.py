"""The page as a browser reads it: its order, its tables, its pictures and what they say."""

import re
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reason.evaluation.suite import write_report
from reason.report.section import shown_steps

VOID = {"meta", "link", "input", "br", "img"}


@pytest.fixture(scope="module")
def page(whole: dict, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("page")
    write_report(folder, whole)
    return (folder / "report.html").read_text()


def test_what_is_opened_is_closed(page: str) -> None:
    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            opened.extend([tag] if tag not in VOID else [])

        def handle_endtag(self, tag: str) -> None:
            assert tag in VOID or opened.pop() == tag

    opened: list[str] = []
    Tags().feed(page)
    assert opened == []


def test_the_boards_come_first(page: str) -> None:
    assert re.search(r'<main[^>]*>\s*<\w+ [^>]*id="viewer"', page)
    assert re.search(r'<input [^>]*type="range"[^>]*aria-label="supervision step"', page)
    assert "prefers-reduced-motion" in page[page.index("<script>") :]


def test_every_chart_says_what_it_shows(page: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    captions = [re.search(r"<figcaption[^>]*>(.*?)</figcaption>", figure, re.DOTALL)[1].strip() for figure in figures]
    assert len(set(captions)) == len(figures) >= 4
    for figure, caption in zip(figures, captions, strict=True):
        assert re.search(rf'alt="{re.escape(caption)}: ', figure)
        assert b"<svg" in b64decode(re.search(r"data:image/svg\+xml;base64,([^\"]+)", figure)[1])


def test_tables_show_steps_that_double_and_unfold_to_all(page: str) -> None:
    section = next(text for text in page.split("<section")[1:] if "Accuracy" in text.partition("</h2>")[0])
    shown, unfolded = section.partition("</section>")[0].split("<details")
    tables = [[int(step) for step in re.findall(r"<tr>\s*<td[^>]*>(\d+)", part)] for part in (shown, unfolded)]
    assert tables == [[1, 2, 4, 5], [1, 2, 3, 4, 5]]
    assert tables[0] == shown_steps(5, 2)
    assert all('scope="col"' in head for head in re.findall(r"<th\b[^>]*", shown))
