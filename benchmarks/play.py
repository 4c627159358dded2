"""Pictures of the page of `reason play`, by Chromium: play-light.png, play-dark.png, play-phone.png and play.gif.

    python -m benchmarks.play docs/images

Needs playwright and a Chromium: pip install -e '.[browser]', apt-get install chromium.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from reason.cli import main as reason

HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."


def address(file: Path, **values: object) -> str:
    """The page with a puzzle and settings."""
    return f"{file.resolve().as_uri()}#{urlencode(values)}"


def think(page: Page) -> None:
    """Press Think and wait for the end."""
    page.locator("#play").click()
    expect(page.locator("#step")).to_be_enabled(timeout=60_000)


def pictures(browser: Any, file: Path, folder: Path) -> None:
    """Write the screenshots and the GIF."""
    for name, width, scheme, model in (
        ("light", 1280, "light", "sudoku"), ("dark", 1280, "dark", "maze"), ("phone", 390, "light", "sudoku"),
    ):  # fmt: skip
        page = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme).new_page()
        page.goto(address(file, model=model, **({"puzzle": HARD} if model == "sudoku" else {})))
        page.locator("#speed").select_option("0")
        think(page)
        page.locator("#scrubber").fill("3")
        page.screenshot(path=folder / f"play-{name}.png", full_page=width > 400)
    page = browser.new_context(viewport={"width": 760, "height": 760}, device_scale_factor=0.75).new_page()
    page.goto(address(file, model="maze", puzzle=perfect_maze(31)))
    shots = [_shot(page)]
    page.locator("#speed").select_option("0")
    think(page)
    last = page.evaluate("play.state().tries[0].frames.findLastIndex((one) => !one.holds)") + 2
    for step in [*range(1, min(last, 24) + 1), last]:
        page.locator("#scrubber").fill(str(step))
        shots.append(_shot(page))
    lasting = [400] + [4000 // len(shots)] * (len(shots) - 2) + [2000]
    shots[0].save(folder / "play.gif", save_all=True, append_images=shots[1:], duration=lasting, loop=0, optimize=True)


def perfect_maze(size: int, seed: int = 0) -> str:
    """Corridors by depth-first search from the start in one corner; the goal is in the other."""
    draw, stack = random.Random(seed), [(0, 0)]
    cells = {(0, 0)}
    while stack:
        row, column = stack[-1]
        ways = [(row + down, column + right) for down, right in ((2, 0), (-2, 0), (0, 2), (0, -2))]
        ways = [(r, c) for r, c in ways if 0 <= r < size and 0 <= c < size and (r, c) not in cells]
        if not ways:
            stack.pop()
            continue
        there = draw.choice(ways)
        cells |= {there, ((row + there[0]) // 2, (column + there[1]) // 2)}
        stack.append(there)
    signs = {(0, 0): "S", (size - 1, size - 1): "G"}
    return "\n".join(
        "".join(signs.get((r, c), "." if (r, c) in cells else "#") for c in range(size)) for r in range(size)
    )


def _shot(page: Page) -> Image.Image:
    picture = page.locator("section[aria-label=board]").screenshot()
    return Image.open(io.BytesIO(picture)).convert("P", palette=Image.Palette.ADAPTIVE, colors=128)


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as play:
        file = Path(scratch) / "play.html"
        reason(["play", "--output", str(file), "--no-browser"])
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pictures(browser, file, arguments.folder)


if __name__ == "__main__":
    main()
