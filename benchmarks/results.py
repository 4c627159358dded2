"""Measured results: small files in docs/results/, and the pages that quote them.

python benchmarks/results.py keep NAME RUN/evaluation/EVALUATION …     docs/results/NAME.json, of these evaluations;
                                                                      --add: beside those that it holds
python benchmarks/results.py write                                    the pages and plots, of all files and claims.yaml

The builder writes docs/results.md (claims and plots), docs/log/by-file.md (every file) and the tables that other pages
hold between `<!-- results: NAME -->` and `<!-- end -->`. claims.yaml has the text; a figure in it is a quotation such
as `[[maze-any 16 on=maze-30x30-fresh]]`, which `quoted` reads from the file.

A kept run has its preset, the settings changed, seed, training data, steps and minutes. A kept evaluation has its
data, n, accuracy at 1, 2, 4, … steps, that of each puzzle's answer of highest q and, where they were measured, norms of
the blind-spot probes, restarts and exits of a gate. Runs that differ in the seed alone make one row, mean ± standard
deviation (n − 1). A study (claims.yaml names its question, command and findings) compares every variant with the first
one, paired by seed.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from plots import line_plot

from datasets_gen.layout import splits_of
from reason.config.describe import keys_of
from reason.config.differences import differing
from reason.data import DataConfig
from reason.files import read_json
from reason.presets import preset
from reason.report.ablation import difference
from reason.runs.export import made_by
from reason.settings.base import Mark
from reason.training.log import read_metrics

HOME = Path(__file__).parents[1] / "docs"
FOLDER = "results"
APART = (
    "seed",
    "data.directory",
    "data.generate",
    *keys_of(Mark.AUTO),
    *keys_of(Mark.OUTSIDE),
)  # beginnings of settings that make no variant
STATED = (
    "data.directory",
    *(f"evaluation.{name}" for name in ("steps", "limit", "compile", "batch_size", "boards")),
)  # elsewhere, or no matter
WAYS = (("forward", "without a gradient"), ("both", "forward and backward"))  # of an account of a step
EXTRA = {"highest_q": "highest q", "held": "held so far"}  # figures of the last step, where a run has them
QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95)  # of an exit gate that are kept
Json = dict[str, Any]


def keep(folder: Path, of: str | None = None) -> Json:
    """The figures of one evaluation and of the run that it read; `of`: the preset whose variant the run is."""
    run = folder.parent.parent
    results, saved = read_json(folder / "results.json"), read_json(run / "config.json")
    config = saved["config"]
    puzzle_steps, seconds = spent(run, config)
    spots, restarts, exits, head = (results.get(name) for name in ("blind_spot", "restarts", "exits", "halting"))
    return {
        "preset": of or results["preset"],
        "changes": changes(of or results["preset"], config),
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
        **({"restarts": {kind: varied["rows"] for kind, varied in restarts.items()}} if restarts else {}),
        **({"exits": kept_exits(exits)} if exits else {}),
    }


def kept_exits(exits: Json) -> Json:
    """By quantile of an exit gate mean loops, accuracy and the fewest fixed loops as accurate; loops by difficulty."""
    rows = []
    for row in exits["gate"]:
        if row["quantile"] in QUANTILES:
            fixed = next((one["loops"] for one in exits["fixed"] if one["exact"] >= row["exact"]), None)
            rows.append({name: row[name] for name in ("quantile", "mean_loops", "exact")} | {"fixed": fixed})
    difficulty = exits.get("by_difficulty") or {"by": "", "bins": []}
    return {"rows": rows, "rank_correlation": exits["rank_correlation"], "by_difficulty": difficulty}


def mean_norms(by_loop: list[Json]) -> Json:
    """Mean norm of a token's state after 1, 2, 4, … loops and the last."""
    return {str(t): round(by_loop[t - 1]["norm"]["mean"], 3) for t in shown(len(by_loop))}


def spent(run: Path, config: Json) -> tuple[int, float]:
    """Puzzle-steps and seconds of a run's training; of an exported model by its card, which has no log."""
    logged = next((line for line in reversed(read_metrics(run)) if "puzzle_steps" in line), None)
    if logged is not None:
        return logged["puzzle_steps"], logged["seconds"]
    card = read_json(run / "card.json")
    return card["step"] * config["rollout"]["grad_steps"] * config["training"]["batch_size"], card["seconds"]


def sets_made_by(run: Path, data: Json) -> str:
    """How the training sets were made, as they say themselves; where they are gone, as the config or the card says."""
    settings = DataConfig(**data)
    folders = settings.directories
    commands: list[str | None] = []
    if all("train" in splits_of(folder) for folder in folders):
        commands = [made_by(folder, "train") for folder in folders]
    elif settings.generate.name is not None:
        commands = [shlex.join(words) for words in settings.generate.commands]
    elif (run / "card.json").is_file():
        commands = [one["made_by"] for one in read_json(run / "card.json")["data"]]
    return "; ".join(
        (command or "a set of unknown origin").removeprefix("python -m datasets_gen ") for command in commands or [None]
    )


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


def study(name: str, runs: list[Json], said: Json) -> list[str]:
    """The tables of one file, below its question and its command where it is a study."""
    steps = sorted({int(step) for run in runs for step in run["exact"]})
    label_of = labels(runs)
    lines = [f"## {name}", ""]
    if said:
        lines += [said["question"].strip(), "", "```bash", said["command"].strip(), "```", ""]
    extra = {key: head for key, head in EXTRA.items() if any(key in run for run in runs)}
    head = ["variant", "read on", "n", "seeds", "parameters", "puzzle-steps", "minutes", *map(str, steps)]
    head += extra.values()
    rows, norms, groups = [], [], grouped(runs)
    for group in groups:
        first, label = group[0], label_of(group)
        seeds = ", ".join(str(seed) for seed in sorted(run["seed"] for run in group))
        minutes = spread([run["minutes"] for run in group], unit="")
        cells = [label, first["read_on"], f"{first['puzzles']:,}", seeds, f"{first['parameters']:,}"]
        cells += [f"{first['puzzle_steps']:,}", minutes]
        for step in steps:
            values = [100 * run["exact"][str(step)] for run in group if str(step) in run["exact"]]
            cells.append(spread(values) if values else "")
        rows.append(cells + [figure_of(group, key) or "" for key in extra])
        if all("norms" in run for run in group):
            loops = list(first["norms"])
            norms.append([label, *(spread([run["norms"][t] for run in group], unit="") for t in loops)])
    lines += table(head, rows)
    if norms:
        loops = list(next(run for run in runs if "norms" in run)["norms"])
        lines += ["", "Mean ‖h‖₂ of a token after each loop:", "", *table(["variant", *loops], norms)]
    for group in groups:
        for kind in group[0].get("restarts", {}):
            lines += ["", f"{label_of(group)} on {group[0]['read_on']}: restarts that differ in {kind}", ""]
            lines += restart_table([run["restarts"][kind] for run in group])
    for group in groups:
        if all("exits" in run for run in group):
            lines += ["", f"{label_of(group)}: leaving by its gate", "", *exit_tables([run["exits"] for run in group])]
    if said:
        lines += ["", *against_the_first(groups, label_of), said["found"].strip()]
    return [*lines, "", "Trained on `" + "`; `".join(sets_of(runs)) + "`.", ""]


def sets_of(runs: list[Json]) -> list[str]:
    """How the training sets were made, each once, in the order of the runs."""
    return list(dict.fromkeys(run["trained_on"] for run in runs))


def labels(runs: list[Json]) -> Callable[[list[Json]], str]:
    """The label of a variant; with the number of its training set where this alone tells two variants apart."""
    sets = sets_of(runs)
    alike = Counter(variant(group[0] | {"trained_on": ""}) for group in grouped(runs))
    if max(alike.values()) == 1:
        return named
    return lambda group: f"{named(group)}, set {sets.index(group[0]['trained_on']) + 1}"


def named(group: list[Json]) -> str:
    """A variant: its preset and what its config changes there."""
    variant = ", ".join(f"{key}={value}" for key, value in group[0]["changes"].items())
    return f"`{group[0]['preset']}`" + (f" `{variant}`" if variant else "")


def against_the_first(groups: list[list[Json]], label_of: Callable[[list[Json]], str]) -> list[str]:
    """Differences in points from the first row of the same puzzles, paired by seed, with 95 % intervals, if any.

    At the trained step each row is read at its own, at the last step both at that of the row.
    """
    rows = []
    for group in groups:
        base = next(other for other in groups if of_same_puzzles(other, group))
        if label_of(base) == label_of(group):
            continue
        cells = [label_of(group), group[0]["read_on"]]
        last = str(max(map(int, group[0]["exact"])))
        for steps in ([str(runs[0]["trained_steps"]) for runs in (group, base)], [last, last]):
            ours, theirs = (
                {run["seed"]: run["exact"][step] for run in runs if step in run["exact"]}
                for step, runs in zip(steps, (group, base), strict=True)
            )
            found = difference(ours, theirs)
            between = "" if found["low"] is None else f" ({100 * found['low']:+.1f} to {100 * found['high']:+.1f})"
            cells.append("" if found["mean"] is None else f"{100 * found['mean']:+.1f}{between}: {found['verdict']}")
        rows.append(cells)
    if not rows:
        return []
    head = ["variant", "read on", "points against the first row, at the trained step", "at the last step"]
    said = "Paired by seed, with 95 % intervals by Student's t, not adjusted for their number:"
    return [said, "", *table(head, rows), ""]


def of_same_puzzles(one: list[Json], other: list[Json]) -> bool:
    """Were two rows read on the same first n puzzles of a set?"""
    return all(one[0][key] == other[0][key] for key in ("read_on", "puzzles"))


def restart_table(runs: list[list[Json]]) -> list[str]:
    """Exact by number of tries and by how the answer is chosen, of one variant's seeds."""
    ways = [way for way in runs[0][0] if way != "restarts"]
    rows = []
    for same in zip(*runs, strict=True):
        chosen = [[row[way] for row in same] for way in ways]
        rows.append([str(same[0]["restarts"]), *("" if None in of else spread([100 * v for v in of]) for of in chosen)])
    return table(["restarts", *ways], rows)


def exit_tables(runs: list[Json]) -> list[str]:
    """Loops and accuracy by quantile, and loops by difficulty, of one variant's seeds."""
    rows = []
    for same in zip(*(run["rows"] for run in runs), strict=True):
        loops, fixed = [row["mean_loops"] for row in same], [row["fixed"] for row in same]
        cells = [spread(loops, ".2f", ""), spread([100 * row["exact"] for row in same])]
        rows.append([f"{same[0]['quantile']:g}", *cells, "" if None in fixed else spread(fixed, unit="")])
    lines = table(["quantile of the gate", "mean loops", "exact", "fixed loops as accurate"], rows)
    bins = []
    by = runs[0]["by_difficulty"]["by"]
    for same in zip(*(run["by_difficulty"]["bins"] for run in runs), strict=True):
        asked, needed = ([row[key] for row in same] for key in ("expected_loops", "needed_loops"))
        cells = [f"{same[0]['puzzles']}", spread(asked, ".2f", ""), "" if None in needed else spread(needed, ".2f", "")]
        bins.append([same[0]["bin"], *cells])
    if bins:
        lines += ["", *table([by, "n", "loops that the gate expects", "loops needed by the solved"], bins)]
    if None not in (found := [run["rank_correlation"] for run in runs]):
        lines += ["", f"Spearman's ρ between loops expected and needed: {spread(found, '.2f', '')}."]
    return lines


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def quoted(home: Path, asked: str) -> str:
    """The figure that `FILE WHAT key=value …` names; an error unless exactly one row has it.

    WHAT is a supervision step (exact), `highest_q` (exact), `held` (the rules, at any step), `K:way` (exact of K
    restarts), `norm:K`, `loops:Q` and `fixed:Q` (of an exit gate at quantile Q), `minutes`, `parameters` or `puzzles`
    (n). The keys choose the row: `on` (data set), `of` (preset), `n` (puzzles), `with` and `without` (settings,
    separated by +).
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
    if what in ("parameters", "puzzles"):
        return f"{group[0][what]:,}"
    if what == "minutes":
        minutes = [run["minutes"] for run in group]
        return spread(minutes, ".0f" if min(minutes) >= 1 else ".1f", "")
    if what in EXTRA:
        return spread([100 * run[what] for run in group]) if all(what in run for run in group) else None
    if kind == "norm":
        return spread([run["norms"][of] for run in group], unit="") if "norms" in group[0] else None
    if kind in ("loops", "fixed"):
        rows = [row for run in group for row in run["exits"]["rows"] if f"{row['quantile']:g}" == of]
        return spread([row["mean_loops" if kind == "loops" else "fixed"] for row in rows], unit="")
    if of:
        tried = [row for run in group for row in run.get("restarts", {}).get("symmetry", [])]
        shares = [row[of] for row in tried if str(row["restarts"]) == kind]
        return spread([100 * share for share in shares]) if shares else None
    return spread([100 * run["exact"][what] for run in group]) if what in group[0]["exact"] else None


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


def log_page(home: Path) -> str:
    """docs/log/by-file.md: every file, its question, command, tables and findings."""
    said = claims(home)
    lines = ["# Results by file", "", said["columns"].strip(), ""]
    for file in sorted((home / FOLDER).glob("*.json")):
        lines += study(file.stem, read_json(file)["runs"], said.get("studies", {}).get(file.stem, {}))
    return "\n".join(lines).rstrip() + "\n"


def pages(home: Path) -> dict[Path, str]:
    """Every page that holds figures of the files, as it should read."""
    written = {home / "results.md": page(home), home / "log/by-file.md": log_page(home)}
    for file in [home.parent / "README.md", *sorted(home.glob("*.md"))]:
        if file not in written and file.is_file() and "<!-- results: " in (text := file.read_text()):
            written[file] = refreshed(home, text)
    file, speed = home / "log/performance.md", home / FOLDER / "speed"
    if speed.is_dir():
        begin, rest = file.read_text().split("<!-- account -->\n", 1)
        found = {name: read_json(speed / f"account{name}.json") for name in ("", "-fp32", "-avx2")}
        tables = "\n".join([*account(found[""]), *in_float32(found["-fp32"], found["-avx2"])])
        written[file] = f"{begin}<!-- account -->\n\n{tables}\n\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
    return written


def in_float32(*instructions: Json) -> list[str]:
    """The table of its rates in float32, by AVX-512 and by AVX2."""
    head = ["", "", *(f"{name}: {column}" for name in ("AVX-512", "AVX2") for column in ("torch", "kernel", "ratio"))]
    rows = []
    for cases in zip(*(found["cases"] for found in instructions), strict=True):
        for how, words in WAYS:
            cells = [cases[0]["case"], words]
            for case in cases:
                for way in (case["ways"][f"{by} {how}"] for by in ("torch", "kernel")):
                    cells.append(f"{way['per_second']['median']:,.0f} ({100 * way['share']['median']:.0f} %)")
                cells.append("{least:.2f} **{median:.2f}** {most:.2f}".format(**way["ratio"]))
            rows.append(cells)
    return ["", "In float32, puzzle-steps a second (share of the roofline):", "", *table(head, rows)]


def account(found: Json) -> list[str]:
    """The table of benchmarks/bench/account.py."""
    head = ["", "", "MFLOP", "kB", "GFLOP/s", "GB/s", "torch", "of the roofline", "kernel", "of the roofline", "ratio"]
    rows = []
    for case in found["cases"]:
        for how, words in WAYS:
            torch, kernel = (case["ways"][f"{by} {how}"] for by in ("torch", "kernel"))
            cells = [case["case"], words, f"{kernel['flops'] / 1e6:,.0f}", f"{kernel['bytes'] / 1e3:,.0f}"]
            cells += [f"{case[peak]['median'] / 1e9:.0f}" for peak in ("peak", "memory")]
            for way in (torch, kernel):
                cells += [f"{way['per_second']['median']:,.0f}", f"{100 * way['share']['median']:.0f} %"]
            rows.append([*cells, "{least:.2f} **{median:.2f}** {most:.2f}".format(**kernel["ratio"])])
    kinds = list(found["cases"][0]["where"])
    spent = [[case["case"], *(f"{100 * case['where'][kind]:.0f} %" for kind in kinds)] for case in found["cases"]]
    said = "Where torch's time goes, forward and backward:"
    return [*table(head, rows), "", said, "", *table(["", *kinds], spent)]


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
    keeping.add_argument(
        "--add",
        action="store_true",
        help="beside those that the file holds, in place of the same seed",
    )
    keeping.add_argument(
        "--of", metavar="PRESET", help="the preset of which runs of a preset of one's own are variants"
    )
    commands.add_parser("write", help="write the pages and plots")
    arguments = parser.parse_args(argv)
    if arguments.command == "keep":
        file = HOME / FOLDER / f"{arguments.name}.json"
        runs = read_json(file)["runs"] if arguments.add else []
        runs += [keep(folder, arguments.of) for folder in arguments.evaluations]
        of_seed = {(variant(run), run["seed"]): run for run in runs}
        file.write_text(json.dumps({"runs": list(of_seed.values())}, indent=1, ensure_ascii=False) + "\n")
    else:
        for file, text in {**pages(HOME), **plots(HOME)}.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
