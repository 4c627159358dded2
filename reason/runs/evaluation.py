"""A run and a data set → accuracy by supervision step, written to RUN/evaluation/NAME/."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets_gen.layout import read_split, splits_of
from reason.config.describe import halting_read, has_mark, idle, idle_lines, refuse_unreadable
from reason.config.overrides import Changes, changes_between, leaves, read_config, value_text
from reason.config.schema import Config
from reason.data.puzzles import PuzzleData
from reason.errors import ConfigError
from reason.evaluation.evaluator import Evaluator, evaluate
from reason.evaluation.suite import consumers_of, write_report
from reason.files import read_json
from reason.models.base import Reasoner
from reason.models.mixing import by_symbol, numbers_written
from reason.plugins import extension
from reason.pretrained import FOLDER
from reason.runs.directory import ROOT, TrainedRun, accept_shape, load_run, read_record
from reason.runs.folders import plain_name, refuse_other_files, replaced_folder
from reason.runs.results import training_curve
from reason.runs.sets import require_set
from reason.settings.base import Mark
from reason.training.accelerate import compile_networks
from reason.training.auto import resolve_compile
from reason.training.device import pick_device
from reason.training.world import device_of_process, joined
from reason.version import __version__


def evaluate_run(run: Path, config: Config, name: str | None = None) -> tuple[dict[str, Any], Path]:
    """Evaluate a run with a config that may differ from that of its training; returns the results and their folder.

    If the run was trained on several sets, the first is evaluated, unless the config names another.
    Evaluations of a model of the package are written below runs/NAME.
    Under torchrun each process evaluates its portion of the puzzles; the first writes, the others return nothing.

    Raises ConfigError or DatasetError if the run, the set or a setting does not fit.
    """
    own_config = read_config(run / "config.json")
    changes = changes_between(own_config, config)
    directory = _chosen_set(run, config, changes)
    device = pick_device(device_of_process(config.device))
    data = PuzzleData(directory, config.evaluation.split, device)
    if len(data) == 0:
        raise ConfigError(f"the {data.split} split of {directory} is empty; name another evaluation.split")
    trained = load_run(run, device, config, config.evaluation.weights)
    _accept_puzzles(trained.model, data, own_config, run)
    evaluator = Evaluator(
        trained.model,
        data,
        config.evaluation,
        own_config.rollout.trained_steps,
        likelihood=config.loss.likelihood,
        halting=halting_read(config),
        seed=config.seed,
    )
    folder = _folder(run, name, directory, evaluator.steps, config, changes)
    share_of_start = own_config.ema.of_start(trained.step) if trained.weights == "ema" else 0
    config, measured = _measured(evaluator, config, changes, share_of_start)
    if not measured:
        return {}, folder
    results = _record(run, trained, evaluator, config, changes, measured)
    with replaced_folder(folder, "an evaluation") as scratch:
        write_report(scratch, results)
    return results, folder


def _chosen_set(run: Path, config: Config, changes: Changes) -> str:
    """Return the set to evaluate on. Raises ConfigError if there is none, or a setting has no effect on evaluation."""
    refuse_unreadable(changes)
    if not config.data.directories:
        raise ConfigError(f"{run} has no data set; type data=DIR")
    directory = config.data.directories[0]
    if len(config.data.directories) > 1 and "data.directory" in changes:
        raise ConfigError(f"data={config.data.directory}: one set at a time; type data={directory}")
    require_set(config, directory)
    return directory


def _accept_puzzles(model: Reasoner, data: PuzzleData, own_config: Config, run: Path) -> None:
    """Let the model accept the set's shape. Raises ConfigError if its puzzles are not those of the training."""
    accept_shape(model, data.shape, data.directory, run)
    known = next(iter(own_config.data.directories), str(data.directory))
    names, own_names = (Path(of) / "identifiers.json" for of in (data.directory, known))
    named = data.shape.num_puzzle_identifiers > 1 and names.is_file() and own_names.is_file()
    if named and read_json(names) != read_json(own_names):
        raise ConfigError(
            f"{names} has as many puzzle identifiers as {own_names}, on which {run} was trained, and other names; "
            f"evaluate data={known}"
        )
    task, trained = data.metadata.task, read_record(run)["task"]
    if not task or not trained or by_symbol(own_config.model, data.shape, model.shape):
        return
    for key in ("name", "causal"):
        was, now = trained.get(key), task.get(key)
        if was != now:
            raise ConfigError(f"{data.directory} holds puzzles of {key} {now}, {run} was trained on {key} {was}")


def _folder(run: Path, name: str | None, directory: str, steps: int, config: Config, changes: Changes) -> Path:
    """Return the folder of an evaluation. Raises ConfigError if it holds other files, or results on another set."""
    name = _default_name(directory, steps, config, changes) if name is None else plain_name(name, "name")
    folder = _written_to(run) / "evaluation" / name
    refuse_other_files(folder, "an evaluation")
    before = directory
    with contextlib.suppress(FileNotFoundError, ConfigError, LookupError, TypeError):  # no file, or a damaged one
        before = str(read_json(folder / "results.json")["dataset"])
    if Path(before).resolve() != Path(directory).resolve():
        raise ConfigError(f"{folder} holds an evaluation on {before}; type name=NAME for this one, on {directory}")
    folder.parent.mkdir(parents=True, exist_ok=True)  # fails before the work if nothing can be written
    return folder


def _measured(
    evaluator: Evaluator, config: Config, changes: Changes, share_of_start: float
) -> tuple[Config, dict[str, Any]]:
    """Return the config with every `auto` resolved, and the results; no results in processes other than the first."""
    data, model, limit = evaluator.data, evaluator.model, config.evaluation.limit
    with joined(data.device) as world:
        share = -(-min(len(data), limit or len(data)) // world.size)
        written = evaluator.steps * share * numbers_written(config.model, data.shape) / 3  # no gradient: a third
        config, reasons = resolve_compile(config, "evaluation.compile", written, data.device)
        compile_mode = config.evaluation.compile
        step = extension("graph", "capture").CapturedStep(model) if compile_mode == "graph" else None
        if compiled := compile_mode != "none":
            compile_networks(model, setting="evaluation.compile")
        evaluator = replace(evaluator, progress=world.first, world=world, fill=compiled, step=step)
        consumers = consumers_of(evaluator)
        costs = [consumer.cost for consumer in consumers if consumer.cost]
        for line in (*_notices(evaluator, config, changes, share_of_start), *reasons, *costs):
            if world.first:
                print(line)
        if compiled:
            evaluator.warm_up()
        return config, evaluate(evaluator, consumers)


def _record(
    run: Path, trained: TrainedRun, evaluator: Evaluator, config: Config, changes: Changes, measured: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the results with what was evaluated, and by which settings."""
    data, values = evaluator.data, leaves(config.model_dump(mode="json"))
    return {
        "run": run.resolve().name,
        "preset": config.name,
        "dataset": config.data.directories[0],
        "split": data.split,
        "fingerprint": data.fingerprint,
        "steps": evaluator.steps,
        "trained_steps": evaluator.trained_steps,
        "weights": trained.weights,
        "checkpoint_step": trained.step,
        "parameters": trained.model.parameter_count(),
        "precision": trained.model.computes_in,
        "device": str(data.device),
        "puzzles_per_second": measured["puzzles"] / measured["seconds"],
        "version": __version__,
        "settings": {key: values[key] for key in values if key in changes or key == "evaluation.compile"},
        **measured,
        "training": training_curve(run),
    }


def _notices(evaluator: Evaluator, config: Config, changes: Changes, share_of_start: float) -> Iterator[str]:
    """Yield notices about the results; share_of_start: share of the initial weights in the averaged ones."""
    directory, *others = config.data.directories
    if others:
        yield f"evaluated on {directory}; the run was trained on {', '.join(others)} as well: data=DIR"
    if share_of_start > 0.05:
        fix = "evaluation.weights=raw, or train with ema.warmup=true"
        yield f"averaged weights still hold {share_of_start:.0%} of the initial ones: {fix}"
    if evaluator.puzzle is not None:
        splits = {"train", config.evaluation.split} & {*splits_of(directory)}
        yield from evaluator.puzzle.notes({name: read_split(directory, name)[1].labels for name in splits})
    yield from idle_lines(changes, idle(config), "this evaluation")


def _written_to(run: Path) -> Path:
    """Return the folder for evaluations: that of the run; for a model of the package, runs/NAME."""
    folder = ROOT / run.name if run.parent == FOLDER else run
    if folder != run and (folder / "config.json").exists():
        raise ConfigError(f"evaluations of the model {run.name} are written to {folder}, which is a run: move it away")
    return folder


def _default_name(directory: str, steps: int, config: Config, changes: Changes) -> str:
    """Return SET-SPLIT-T16 and the other changed settings, so that evaluations of a run do not overwrite each other.

    The section of a setting is omitted if the setting's name is unique among the settings that evaluation accepts.

    Raises ConfigError if that is not a valid folder name.
    """
    named = ("evaluation.steps", "evaluation.split", "evaluation.batch_size", "data.directory", "device")
    known = [key.rpartition(".")[2] for key in leaves(config.model_dump()) if has_mark(key, Mark.READABLE)]
    short = {key: last if known.count(last := key.rpartition(".")[2]) == 1 else key for key in changes}
    asked = [f"{short[key]}={value_text(changes[key])}" for key in sorted(changes) if key not in named]
    name = "-".join([Path(directory).resolve().name, config.evaluation.split, f"T{steps}", *asked])
    try:
        return plain_name(name, "name")
    except ConfigError as error:
        raise ConfigError(f"{error} for this evaluation; type name=NAME") from None
