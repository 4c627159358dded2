"""Model cards: the puzzles and training sets of a model, and its accuracy by step, as JSON and Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from reason.errors import printable
from reason.pretrained import CARD
from reason.report.section import shown_steps

Card = Mapping[str, Any]
PAPERS = {"TRM": "2510.04871", "HRM": "2506.21734", "CMM": "2603.22871", "STARS": "2605.26733", "Ouro": "2510.25741"}


def write_card(folder: Path, card: Card) -> None:
    """Write card.json and README.md."""
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(markdown(card), encoding="utf-8")


def markdown(card: Card) -> str:
    """Return the card as Markdown; its first lines are metadata for the Hugging Face hub.

    Names and commands come from untrusted files, so line breaks and HTML are escaped.
    """
    minutes = "" if card["seconds"] is None else f", {card['seconds'] / 60:.0f} min"
    rounded = "" if card["stored"] == "fp32" else f", stored as {card['stored']}"
    made = [f"{card['command']}   # training"] if card["command"] else []
    made += [f"{one['made_by']} --output-dir data/{one['set']}" for one in card["data"] if one["made_by"]]
    papers = [f"[{name}](https://arxiv.org/abs/{number})" for name, number in _papers(card).items()]
    lines = [
        "---", *yaml.safe_dump(_metadata(card), sort_keys=False).splitlines(), "---", "",
        f"# {card['name']}", "",
        card["summary"], "",
        "## Model Details", "",
        f"{card['parameters']:,} parameters ({card['bytes'] / 1000:,.0f} kB{rounded}), "
        f"{'moving average of the ' if card['weights'] == 'ema' else ''}weights at step {card['step']:,}{minutes}, "
        f"seed {card['seed']}, version {card['version']}, torch {card['torch']}.", "",
        f"Papers: {', '.join(papers)}.", "",
        "## How to Get Started with the Model", "",
        "```bash", "pip install 'recursive-reasoners[hub]'",
        f"reason solve hf:OWNER/{card['name']} PUZZLE{card.get('rules', '')}   "
        "# on the hub, whose page names the owner; else the folder",
        "```", "",
        *(["## Training Details", "", "```bash", *made, "```", ""] if made else []),
        "## Evaluation", "",
        "Exact accuracy on unseen puzzles by supervision step:", "",
    ]  # fmt: skip
    for one in card["evaluations"]:
        steps = shown_steps(one["steps"], card["trained_steps"])
        lines += [f"{one['set']}, {one['split']} split, n {one['puzzles']:,} (`{one['command']}`):", ""]
        rows = {"": [f"step {step}" for step in steps], "---": ["---"] * len(steps)}
        for name, key in (("exact", "exact_by_step"), ("with float32 weights", "exact_by_step_in_float32")):
            if key in one:
                rows[name] = [f"{100 * one[key][step - 1]:.1f} %" for step in steps]
        lines += [*(f"| {' | '.join([name, *row])} |" for name, row in rows.items()), ""]
    return "\n".join(printable(line).replace("<", "&lt;") for line in lines)


def _papers(card: Card) -> dict[str, str]:
    """Return the papers that the summary names; TRM's if it names none, since all models have its recursion."""
    return {name: PAPERS[name] for name in PAPERS if name in card["summary"]} or {"TRM": PAPERS["TRM"]}


def _metadata(card: Card) -> dict[str, Any]:
    """Return the metadata for the hub: tags, and the exact accuracy at the last step of each set."""
    task = {"type": "puzzle", "name": f"{card['task'].get('name', 'puzzle')}"}
    results = []
    for one in card["evaluations"]:
        of = {"type": one["set"], "name": one["set"], "split": one["split"]}
        exact = {"type": "exact_match", "name": f"step {one['steps']}", "value": one["exact_by_step"][-1]}
        results.append({"task": task, "dataset": of, "metrics": [exact]})
    return {
        "license": "mit",
        "library_name": "reason",
        "tags": ["recursive-reasoning", *_papers(card), *(f"arxiv:{number}" for number in _papers(card).values())],
        "model-index": [{"name": card["name"], "results": results}],
    }
