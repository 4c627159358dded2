"""Colours of pages and charts: contrast 4.5:1; every colour is paired with a marker, dash or label."""

from __future__ import annotations

from typing import Any

LIGHT = {
    "--paper": "#fbfaf7", "--card": "#ffffff", "--ink": "#23262b", "--soft": "#5d626b", "--line": "#d9d7d0",
    "--series-1": "#0a5fb0", "--series-2": "#b34a00", "--series-3": "#00382c", "--series-4": "#a93f8c",
    "--series-5": "#6e5600", "--series-6": "#33257a", "--series-7": "#00788a", "--series-8": "#5a5f67",
    "--accent": "#2f6aa8", "--wrong": "#b3203c", "--changed": "#ffe08a", "--given": "#eceae3",
    "--shade": "#0000002a",
}  # fmt: skip
DARK = {
    "--paper": "#16181c", "--card": "#1e2126", "--ink": "#e6e4df", "--soft": "#9fa5af", "--line": "#343841",
    "--series-1": "#58a6f5", "--series-2": "#f08a3c", "--series-3": "#c8f7e4", "--series-4": "#e07fc4",
    "--series-5": "#c9a83e", "--series-6": "#e2dbff", "--series-7": "#4fb9cc", "--series-8": "#a8aeb8",
    "--accent": "#6cb4f5", "--wrong": "#ff8296", "--changed": "#6b5514", "--given": "#2a2e35",
    "--shade": "#000000b0",
}  # fmt: skip
SERIES = [colour for name, colour in LIGHT.items() if name.startswith("--series")]
BLUE, ORANGE, GREEN, PINK, OCHRE, VIOLET, TEAL, GREY = SERIES
INK, LINE = LIGHT["--ink"], LIGHT["--line"]
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")


def styled(index: int) -> dict[str, Any]:
    """Return the style of line `index`: eight colours and marks, then the same with other dashes."""
    count = len(SERIES)
    return {
        "color": SERIES[index % count],
        "marker": MARKERS[index % count],
        "linestyle": DASHES[index // count % len(DASHES)],
    }


def css() -> str:
    """Return the colours as properties of the page, light and dark."""
    light, dark = (
        "".join(f"{name}: {colour}; " for name, colour in scheme.items()).strip() for scheme in (LIGHT, DARK)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
    )
