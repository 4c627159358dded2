"""Model cards: what a trained model solves, what it was trained on, and its accuracy by step, as JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reason.errors import printable
from reason.pretrained import CARD

Card = Mapping[str, Any]


def write_card(folder: Path, card: Card) -> None:
    """card.json and README.md."""
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(markdown(card), encoding="utf-8")


def shown_steps(card: Card, evaluation: Card) -> list[int]:
    """1, 2, 4, 8 …, the last trained step and the last one."""
    steps = evaluation["steps"]
    return sorted(
        {*(2**k for k in range(steps.bit_length()) if 2**k <= steps), min(card["trained_steps"], steps), steps}
    )


def per_cent(share: float) -> str:
    """A share as the tables print it."""
    return f"{100 * share:.1f} %"


def markdown(card: Card) -> str:
    """The card to be read; its first lines are those that the Hugging Face hub reads.

    Names and commands come from files that anyone may have written, so no line may become two, or HTML.
    """
    minutes = "" if card["seconds"] is None else f", {card['seconds'] / 60:.0f} min"
    rounded = "" if card["stored"] == "fp32" else f", stored as {card['stored']}"
    made = [f"{card['command']}   # training"] if card["command"] else []
    made += [f"{one['made_by']} --output-dir data/{one['set']}" for one in card["data"] if one["made_by"]]
    lines = [
        "---", "license: mit", "library_name: reason", "tags: [recursive-reasoning, TRM, HRM]", "---", "",
        f"# {card['name']}", "",
        card["summary"], "",
        f"{card['parameters']:,} parameters ({card['bytes'] / 1000:,.0f} kB{rounded}), "
        f"{'moving average of the ' if card['weights'] == 'ema' else ''}weights at step {card['step']:,}{minutes}, "
        f"seed {card['seed']}, version {card['version']}, torch {card['torch']}.", "",
        *(["```bash", *made, "```", ""] if made else []),
        "Exact accuracy on unseen puzzles by supervision step:", "",
    ]  # fmt: skip
    for one in card["evaluations"]:
        steps = shown_steps(card, one)
        lines += [f"{one['set']}, {one['split']} split, n {one['puzzles']:,} (`{one['command']}`):", ""]
        lines += [_row("", *(f"step {step}" for step in steps)), _row("---", *("---" for _ in steps))]
        lines += [_row("exact", *(per_cent(one["exact_by_step"][step - 1]) for step in steps))]
        if (before := one.get("exact_by_step_in_float32")) is not None:
            lines += [_row("with float32 weights", *(per_cent(before[step - 1]) for step in steps))]
        lines += [""]
    return "\n".join(printable(line).replace("<", "&lt;") for line in lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
