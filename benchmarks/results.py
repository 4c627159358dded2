"""Measured results: small files in docs/results/, and the pages that quote them.

python benchmarks/results.py keep NAME RUN/evaluation/EVALUATION …     docs/results/NAME.json, of these evaluations;
                                                                      --add: beside those that it holds
python benchmarks/results.py show NAME                                every figure of a file, in a table
python benchmarks/results.py write                                    the pages and plots, of all files and claims.yaml

The builder writes docs/results.md (claims and plots), docs/leaderboard.md (networks by test set, of leaderboard.yaml,
which has others' published figures), docs/log/by-file.md (every file) and the tables that other pages hold between
`<!-- results: NAME -->` and `<!-- end -->`. claims.yaml has the text; a figure in it is a quotation such as
`[[maze-any 16 on=maze-30x30-fresh]]`, which `quoted` reads from the file.

A kept run has its preset, the settings changed, seed, training data, steps and minutes. A kept evaluation has its
data, n, accuracy at 1, 2, 4, … steps, that of each puzzle's answer of highest q and, where they were measured, norms of
the blind-spot probes and restarts. Runs that differ in the seed alone make one row, mean ± standard deviation (n − 1).
claims.yaml has the question, the command and the findings of each file.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from plots import line_plot
from scipy.stats import binomtest

from datasets_gen.layout import splits_of
from reason.config.describe import keys_of
from reason.config.overrides import differing
from reason.data.config import DataConfig
from reason.extensions.export.model import made_by
from reason.files import read_json
from reason.presets import preset
from reason.settings.base import Mark
from reason.training.auto import AUTO
from reason.training.log import read_metrics

HOME = Path(__file__).parents[1] / "docs"
FOLDER = "results"
# beginnings of settings that make no variant
APART = ("seed", "data.directory", "data.generate", *AUTO, *keys_of(Mark.OUTSIDE))
# settings of an evaluation that are stated elsewhere, or do not matter
STATED = ("data.directory", *(f"evaluation.{name}" for name in ("steps", "limit", "compile", "batch_size", "boards")))
CURVES = {  # by loop: key and form
    "norm": ("norms", ".1f"),
    "r": ("radial", ".1e"),
    "perplexity": ("perplexity", ".1f"),
    "gate": ("gate", ".4f"),
}
OURS = ("parameters", "puzzle_steps", "seeds", "puzzles", "16", "64")  # of a row of the leaderboard, by `quoted`
EXTRA = ("highest_q", "held")  # shares at the last step, where a run has them
Json = dict[str, Any]


def keep(folder: Path) -> Json:
    """The figures of one evaluation and of the run that it read."""
    run = folder.parent.parent
    results, saved = read_json(folder / "results.json"), read_json(run / "config.json")
    config = saved["config"]
    puzzle_steps, seconds = spent(run, config)
    names = ("blind_spot", "restarts", "halting", "perplexity_by_step")
    spots, restarts, head, text = (results.get(name) for name in names)
    return {
        "preset": results["preset"],
        "changes": changes(results["preset"], config),
        "seed": config["seed"],
        "trained_on": sets_made_by(run, config["data"]),
        "optimizer_steps": results["checkpoint_step"],
        "puzzle_steps": puzzle_steps,
        "minutes": round(seconds / 60, 1),
        "parameters": results["parameters"],
        "trained_steps": results["trained_steps"],
        "weights": results["weights"],
        "read_on": f"{Path(results['dataset']).name} {results['split']}",
        "puzzles": results["puzzles"],
        "settings": {key: value for key, value in results["settings"].items() if key not in STATED},
        "exact": {
            str(t): round(results["exact_by_step"][t - 1], 6)
            for t in sorted({*shown(results["steps"]), min(results["trained_steps"], results["steps"])})
        },
        **({"highest_q": round(head["exact_by_step"][-1], 6)} if head and "exact_by_step" in head else {}),
        **({"held": round(results["held_by_step"][-1], 6)} if "held_by_step" in results else {}),
        **({"norms": mean_norms(spots["by_loop"])} if spots else {}),
        **({"radial": {str(t): spots["by_loop"][t - 1]["r"] for t in shown(len(spots["by_loop"]))}} if spots else {}),
        **({"perplexity": {str(t): round(text[t - 1], 3) for t in shown(results["steps"])}} if text else {}),
        **({"gate": gate_gains(results["exits"])} if "exits" in results else {}),
        **({"restarts": {kind: varied["rows"] for kind, varied in restarts.items()}} if restarts else {}),
    }


def mean_norms(by_loop: list[Json]) -> Json:
    """Mean norm of a token's state after 1, 2, 4, … loops and the last."""
    return {str(t): round(by_loop[t - 1]["norm"]["mean"], 3) for t in shown(len(by_loop))}


def gate_gains(exits: Json) -> Json:
    """Cross-entropy of the exit gate less that of fixed loops, which are mixed to the same mean number."""

    def at(mean: float, points: list[Json]) -> float:
        means, losses = zip(*sorted((point["mean_loops"], point["ce"]) for point in points), strict=True)
        return float(np.interp(mean, means, losses))

    return {f"{mean:g}": round(at(mean, exits["gate"]) - at(mean, exits["fixed"]), 5) for mean in (2.5, 3.0, 3.5)}


def spent(run: Path, config: Json) -> tuple[int, float]:
    """Puzzle-steps and seconds of a run's training; of an exported model by its card, which has no log."""
    logged = next((line for line in reversed(read_metrics(run)) if "puzzle_steps" in line), None)
    if logged is not None:
        return logged["puzzle_steps"], logged["seconds"]
    card = read_json(run / "card.json")
    return card["step"] * config["rollout"]["grad_steps"] * config["training"]["batch_size"], card["seconds"]


def sets_made_by(run: Path, data: Json) -> str:
    """How the training sets were made, as they say themselves; where they are gone, as the config or the card says."""
    settings, card = DataConfig(**data), run / "card.json"
    commands: list[str | None] = [None]
    if all("train" in splits_of(folder) for folder in settings.directories):
        commands = [made_by(folder, "train") for folder in settings.directories]
    elif settings.commands:
        commands = [shlex.join(words) for words in settings.commands]
    elif card.is_file():
        commands = [one["made_by"] for one in read_json(card)["data"]]
    known = (command or "a set of unknown origin" for command in commands)
    return "; ".join(command.removeprefix("python -m datasets_gen ") for command in known)


def changes(name: str, config: Json) -> Json:
    """The settings, flat, in which a config differs from its preset, of those that both versions have."""
    apart = differing([preset(name).config().model_dump(mode="json"), config])
    return {key: apart[key][1] for key in sorted(apart) if not key.startswith(APART) and ... not in apart[key]}


def shown(steps: int) -> list[int]:
    """1, 2, 4, … and the last."""
    return sorted({1 << power for power in range(steps.bit_length())} | {steps})


def variant(run: Json) -> str:
    """What runs that differ in the seed alone have in common."""
    alike = ("preset", "changes", "trained_on", "optimizer_steps", "read_on", "puzzles", "weights", "settings")
    return json.dumps([run.get(name) for name in alike])


def grouped(runs: list[Json]) -> list[list[Json]]:
    """Runs that differ in the seed alone, together."""
    groups: dict[str, list[Json]] = {}
    for run in runs:
        groups.setdefault(variant(run), []).append(run)
    return list(groups.values())


def spread(values: list[float], form: str = ".1f", unit: str = " %") -> str:
    """Mean ± standard deviation."""
    mean = format(statistics.fmean(values), form)
    return f"{mean}{unit}" if len(values) == 1 else f"{mean} ± {format(statistics.stdev(values), form)}{unit}"


def shown_table(runs: list[Json]) -> list[str]:
    """Every figure of a file, in columns named as a quotation names them."""
    groups, sets = grouped(runs), list(dict.fromkeys(run["trained_on"] for run in runs))
    steps = sorted({step for run in runs for step in run["exact"]}, key=int)
    names = ["puzzles", "parameters", "minutes", *steps, *dict.fromkeys(what for run in runs for what in others(run))]
    rows = []
    for group in groups:
        first, seeds = group[0], sorted(run["seed"] for run in group)
        cells = [named(group), f"{sets.index(first['trained_on']) + 1}", first["read_on"], ", ".join(map(str, seeds))]
        rows.append(cells + [figure_of(group, what) or "" for what in names])
    trained = [f"Set {number}: `{made_by}`" for number, made_by in enumerate(sets, start=1)]
    return [*table(["variant", "set", "read on", "seeds", *names], rows), "", *trained]


def others(run: Json) -> list[str]:
    """What else `quoted` may be asked for of a run."""
    names = [key for key in EXTRA if key in run]
    names += [f"{kind}:{loop}" for kind, (key, _) in CURVES.items() for loop in run.get(key, {})]
    for vary, rows in run.get("restarts", {}).items():
        ways = [(row["restarts"], way) for row in rows for way in row if way != "restarts" and row[way] is not None]
        names += [f"{count}:{way}" + f":{vary}" * (vary != "symmetry") for count, way in ways]
    return names


def named(group: list[Json]) -> str:
    """A variant: its preset and what its config changes there."""
    variant = ", ".join(f"{key}={value}" for key, value in group[0]["changes"].items())
    return f"`{group[0]['preset']}`" + (f" `{variant}`" if variant else "")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def quoted(home: Path, asked: str) -> str:
    """The figure that `FILE WHAT key=value …` names; an error unless exactly one row has it.

    WHAT is a supervision step (exact), `highest_q` (exact), `held` (the rules, at any step), `K:way` (exact of K
    restarts under symmetries; `K:way:noise` and `K:way:initial` of others), `norm:K`, `r:K` (mean |cos| of the loss
    gradient and the state), `perplexity:K`, `gate:MEAN` (nats against fixed loops), `minutes`, `parameters` or
    `puzzles` (n). The keys choose the row: `on` (data set), `of` (preset), `n` (puzzles), `with` and `without`
    (settings, separated by +).
    """
    file, what, *pairs = asked.split()
    keys = dict(pair.split("=", 1) for pair in pairs)
    found = []
    for group in grouped(read_json(home / FOLDER / f"{file}.json")["runs"]):
        first, label = group[0], named(group)
        chosen = (
            keys.get("of", first["preset"]) == first["preset"]
            and keys.get("on", first["read_on"].split()[0]) == first["read_on"].split()[0]
            and int(keys.get("n", first["puzzles"])) == first["puzzles"]
            and all(part in label for part in keys.get("with", "").split("+"))
            and not any(part in label for part in keys.get("without", "").split("+") if part)
        )
        if chosen and (figure := figure_of(group, what)) is not None:
            found.append(figure)
    if len(found) != 1:
        raise SystemExit(f"error: [[{asked}]] names {len(found)} rows; name one with on=, of=, n=, with= or without=")
    return found[0]


def figure_of(group: list[Json], what: str) -> str | None:
    """One figure of the runs that differ in the seed alone; None where they do not have it."""
    kind, _, of = what.partition(":")
    if what in ("parameters", "puzzles", "puzzle_steps"):
        return f"{group[0][what]:,}"
    if what == "seeds":
        return str(len(group))
    if what == "minutes":
        minutes = [run["minutes"] for run in group]
        return spread(minutes, ".0f" if min(minutes) >= 1 else ".1f", "")
    if kind in CURVES:
        key, form = CURVES[kind]
        return spread([run[key][of] for run in group], form, "") if of in group[0].get(key, {}) else None
    if of:
        way, _, vary = of.partition(":")
        tried = [row for run in group for row in run.get("restarts", {}).get(vary or "symmetry", [])]
        shares = [row[way] for row in tried if str(row["restarts"]) == kind and row[way] is not None]
    else:
        shares = [run[what] if what in EXTRA else run["exact"][what] for run in group if what in {*run, *run["exact"]}]
    return spread([100 * share for share in shares]) if shares else None


def fill(home: Path, text: str) -> str:
    """A text with its quotations in place."""
    return re.sub(r"\[\[([^\]]+)\]\]", lambda found: quoted(home, found[1]), text).strip()


def tabled(home: Path, said: Json, name: str) -> str:
    """A table of claims.yaml, its quotations in place."""
    asked = said["tables"][name]
    return "\n".join(table(asked["head"], [[fill(home, cell) for cell in row] for row in asked["rows"]]))


def refreshed(home: Path, text: str) -> str:
    """A page with the tables between its markers written anew."""
    said = claims(home)
    return re.sub(
        r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{tabled(home, said, found[2])}\n\n{found[3]}",
        text,
        flags=re.DOTALL,
    )


def claims(home: Path) -> Json:
    """What claims.yaml says."""
    return yaml.safe_load((home / FOLDER / "claims.yaml").read_text())


def page(home: Path) -> str:
    """docs/results.md: claims, one line each, and plots."""
    said = claims(home)
    rows = []
    for row in said["claims"]:
        link = f"[{row['file']}](log/by-file.md#{row['file']})"
        rows.append([row["paper"], row["claim"], fill(home, row["found"]), row["verdict"], link])
    lines = ["# Results", "", said["about"].strip(), ""]
    head = ["paper", "claim", "measured here", "verdict", "file"]
    lines += [*table(head, rows), "", said["verdicts"].strip(), ""]
    for name, plot in said.get("plots", {}).items():
        picture = f"![{plot['says'].strip()}](images/{name}.svg)"
        lines += [f"## {plot['title']}", "", picture, "", plot["text"].strip(), ""]
    lines += [said["limits"].strip(), ""]
    return "\n".join(lines).rstrip() + "\n"


def leaderboard(home: Path) -> str:
    """docs/leaderboard.md: networks by test set, ours from the files, others as published."""
    said = yaml.safe_load((home / FOLDER / "leaderboard.yaml").read_text())
    lines = ["# Leaderboard", "", said["about"].strip(), ""]
    for part in said["tables"]:
        rows = []
        for row in part["rows"]:
            if "file" in row:
                asked = {key: f"{row['file']} {key} {row['keys']}" for key in OURS if key not in row}
                row = row | {key: quoted(home, each) for key, each in asked.items()}
            n = int(str(row.get("puzzles", 0)).replace(",", ""))
            shown = row | {key: ranged(str(row[key]), n) for key in ("16", "64") if row.get(key, "") != ""}
            rows.append([f"{shown.get(key, '')}" for key in said["columns"]])
        lines += [f"## {part['title']}", "", part["text"].strip(), "", *table(list(said["columns"].values()), rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def ranged(percent: str, n: int) -> str:
    """A figure of one run on n puzzles with Wilson's 95 % interval; another as it is."""
    if "±" in percent or not n:
        return percent
    share = float(percent.removesuffix(" %")) / 100
    low, high = binomtest(round(share * n), n).proportion_ci(method="wilson")
    return f"{percent.removesuffix(' %')} [{100 * low:.1f}, {100 * high:.1f}]"


def log_page(home: Path) -> str:
    """docs/log/by-file.md: of every file its question, its command, its size and what it showed."""
    said = claims(home)
    lines = ["# Results by file", "", said["columns"].strip(), ""]
    for file in sorted((home / FOLDER).glob("*.json")):
        lines += entry(file.stem, read_json(file)["runs"], said.get("studies", {}).get(file.stem, {}))
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str, runs: list[Json], said: Json) -> list[str]:
    """A trial of the log; `said` is what claims.yaml says of it."""
    groups = grouped(runs)
    counts = {"rows": [len(groups)], "seeds": [len(group) for group in groups], "n": [run["puzzles"] for run in runs]}
    counts["parameters"] = [run["parameters"] for run in runs]
    counts["minutes"] = [max(1, round(run["minutes"])) for run in runs]
    size = "; ".join(f"{key} {between(values)}" for key, values in counts.items())
    asked = wrapped(f"{said.get('question', '').strip()} ([data](../{FOLDER}/{name}.json): {size})")
    command = [f"    {line}" for line in said.get("command", "").splitlines()]
    return [f"## {name}", "", asked, "", *command, "", wrapped(said.get("found", "")), ""]


def wrapped(text: str) -> str:
    """Paragraphs in lines as long as those of the other pages."""
    fill = partial(textwrap.fill, width=160, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join(map(fill, text.strip().split("\n\n")))


def between(values: list[int]) -> str:
    """The least to the greatest, or the only one."""
    low, high = f"{min(values):,}", f"{max(values):,}"
    return low if low == high else f"{low} to {high}"


def pages(home: Path) -> dict[Path, str]:
    """Every page that holds figures of the files, as it should read."""
    written = {home / "results.md": page(home), home / "log/by-file.md": log_page(home)}
    if (home / FOLDER / "leaderboard.yaml").is_file():
        written[home / "leaderboard.md"] = leaderboard(home)
    for file in [home.parent / "README.md", *sorted(home.glob("*.md"))]:
        if file not in written and file.is_file() and "<!-- results: " in (text := file.read_text()):
            written[file] = refreshed(home, text)
    return written


def plots(home: Path) -> dict[Path, str]:
    """The plots of docs/results.md, as SVG for light and dark pages."""
    drawn = {}
    for name, plot in claims(home).get("plots", {}).items():
        lines = {}
        for label, asked in plot["lines"].items():
            points = [(x, fill(home, f"[[{asked.format(x)}]]")) for x in plot["at"].get(label, plot["at"]["all"])]
            lines[label] = [(x, float(figure.split()[0])) for x, figure in points]
        floor = plot.get("floor", 0)
        drawn[home / f"images/{name}.svg"] = line_plot(plot["x"], plot["y"], lines, plot["says"].strip(), floor)
    return drawn


def main(argv: list[str] | None = None) -> int:
    """Keep or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="put evaluations into docs/results/NAME.json")
    keeping.add_argument("name")
    keeping.add_argument("evaluations", nargs="+", type=Path, metavar="RUN/evaluation/EVALUATION")
    keeping.add_argument("--add", action="store_true", help="to those that the file holds, in place of the same seed")
    commands.add_parser("show", help="print every figure of docs/results/NAME.json").add_argument("name")
    commands.add_parser("write", help="write the pages and plots")
    arguments = parser.parse_args(argv)
    if arguments.command == "keep":
        file = HOME / FOLDER / f"{arguments.name}.json"
        runs = read_json(file)["runs"] if arguments.add else []
        runs += [keep(folder) for folder in arguments.evaluations]
        of_seed = {(variant(run), run["seed"]): run for run in runs}
        file.write_text(json.dumps({"runs": list(of_seed.values())}, indent=1, ensure_ascii=False) + "\n")
    elif arguments.command == "show":
        print("\n".join(shown_table(read_json(HOME / FOLDER / f"{arguments.name}.json")["runs"])))
    else:
        for file, text in {**pages(HOME), **plots(HOME)}.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
