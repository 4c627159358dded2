"""The page in a real browser: Debian's chromium, driven by playwright. Run with -m browser."""

import os
import shutil
from pathlib import Path

import pytest
from report.test_report import EVERYTHING, read

from reason.evaluation.suite import write_report

pytestmark = pytest.mark.browser
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZES = {"desktop": (1200, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def page_file(sudoku_4x4: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    write_report(folder, read(sudoku_4x4, 5, EVERYTHING))
    return folder / "report.html"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium")
@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_the_page_opens_and_its_slider_moves(size: str, scheme: str, page_file: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install -e '.[browser]'")
    said: list[str] = []
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        width, height = SIZES[size]
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True, reduced_motion="reduce"
        )
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request", lambda request: said.append(request.url) if request.url[:4] not in ("file", "data") else None
        )
        page.goto(page_file.as_uri())
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
        if folder := os.environ.get("SCREENSHOTS"):
            slider.fill("1")
            page.screenshot(path=str(Path(folder) / f"{size}-{scheme}.png"), full_page=True)
        browser.close()
    assert said == []
