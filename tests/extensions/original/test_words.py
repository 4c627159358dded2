"""Command lines of the original code: each is answered with a line that runs and means the same."""

import json
import shlex
from pathlib import Path

import pytest
from conftest import refusal

from reason.config.describe import describe_settings
from reason.config.overrides import override, split_arguments
from reason.extensions.original.words import SAME, VALUES, answer
from reason.presets import preset

LONG = "epochs=50000 eval_interval=5000 lr=1e-4 puzzle_emb_lr=1e-4 weight_decay=1.0 puzzle_emb_weight_decay=1.0"
SHORT = LONG.replace("50000", "20000").replace("5000", "2000")
STARTED = "torchrun --nproc-per-node 4 --rdzv_backend=c10d --rdzv_endpoint=localhost:0 --nnodes=1"
CYCLES = "arch.L_layers=2 arch.H_cycles=3"
SUDOKU, MAZE = "data/sudoku-extreme-1k-aug-1000", "data/maze-30x30-hard-1k"
OWN = f"evaluators=[] {LONG} {CYCLES} arch.L_cycles=6 +run_name=a ema=True"
TRM_SUDOKU = f"pretrain.py arch=trm data_paths=[{SUDOKU}] {OWN}"
ARC, FULL = "data/arc-aug-1000", "data/sudoku-hard-full"
OF_A_SET = "data_paths=[set]"


def answered(typed):
    said = answer(shlex.split(typed))
    assert said is not None
    line, _, besides = said.partition("type: ")[2].partition(" (")
    return line, besides.removesuffix(")")


def meant(line):
    words = shlex.split(line.rpartition("train.py ")[2])
    (chosen,), pairs = split_arguments(words)
    own = {key: pairs.pop(key) for key in ("data", "run", "init_from") if key in pairs}
    return chosen, override(preset(chosen).config(), pairs), own


def put(folder, groups, mean=1, cells=81, tokens=11, split="train"):
    fields = {"pad_id": 0, "ignore_label_id": 0, "blank_identifier_id": 0, "vocab_size": tokens, "seq_len": cells}
    fields |= {"num_puzzle_identifiers": 1, "total_groups": groups, "mean_puzzle_examples": mean, "sets": ["all"]}
    Path(folder, split).mkdir(parents=True)
    Path(folder, split, "dataset.json").write_text(json.dumps(fields))


@pytest.mark.parametrize(("typed", "line"), [  # every line of the two READMEs
    (f"OMP_NUM_THREADS=8 python pretrain.py data_path={SUDOKU} {SHORT} global_batch_size=384 lr=7e-5",
     f"python train.py hrm-sudoku data={SUDOKU} training.batch_size=384 optimizer.lr=7e-5 training.steps=52083"),
    ("OMP_NUM_THREADS=8 torchrun --nproc-per-node 8 pretrain.py",
     f"torchrun --nproc-per-node 8 train.py hrm-arc data={ARC}"),
    ("torchrun --nproc-per-node 8 pretrain.py data_path=data/arc-2-aug-1000",
     "torchrun --nproc-per-node 8 train.py hrm-arc data=data/arc-2-aug-1000"),
    (f"torchrun --nproc-per-node 8 pretrain.py data_path={SUDOKU} {SHORT}",
     f"torchrun --nproc-per-node 8 train.py hrm-sudoku data={SUDOKU}"),
    (f"torchrun --nproc-per-node 8 pretrain.py data_path={MAZE} {SHORT}",
     f"torchrun --nproc-per-node 8 train.py hrm-maze data={MAZE}"),
    (f"pretrain.py data_path={FULL} epochs=100 eval_interval=10 lr_min_ratio=0.1 global_batch_size=2304 lr=3e-4 "
     "puzzle_emb_lr=3e-4 weight_decay=0.1 puzzle_emb_weight_decay=0.1 arch.loss.loss_type=softmax_cross_entropy "
     "arch.L_cycles=8 arch.halt_max_steps=8 arch.pos_encodings=learned",
     f"python train.py hrm-sudoku data={FULL} model.l_cycles=8 rollout.supervision_steps=8 "
     "training.batch_size=2304 optimizer.lr=3e-4 optimizer.schedule.min_ratio=0.1 optimizer.weight_decay=0.1 "
     "optimizer.puzzle_emb_lr=3e-4 optimizer.puzzle_emb_weight_decay=0.1 model.positions=learned "
     "loss.likelihood=softmax optimizer.schedule.kind=cosine training.steps=166276"),
    (f"{STARTED} pretrain.py arch=trm data_paths=[data/arc1concept-aug-1000] {CYCLES} arch.L_cycles=4 ema=True",
     "torchrun --nproc-per-node 4 train.py trm-att-arc data=data/arc1concept-aug-1000"),
    (f"{TRM_SUDOKU} arch.mlp_t=True arch.pos_encodings=none",
     f"python train.py trm-mlp-sudoku data={SUDOKU} run=runs/a"),
    (TRM_SUDOKU, f"python train.py trm-att-sudoku data={SUDOKU} run=runs/a"),
    (f"{STARTED} pretrain.py arch=trm data_paths=[{MAZE}] evaluators=[] {LONG} {CYCLES} arch.L_cycles=4 ema=True",
     f"torchrun --nproc-per-node 4 train.py trm-att-maze data={MAZE} training.batch_size=768 "
     "training.steps=65104"),
    # the authors' defaults hold where nothing is typed
    ("arch=trm data_paths=[data/mine] epochs=50000 lr=1e-4 arch.mlp_t=True arch.H_cycles=3",
     "python train.py trm-mlp-sudoku data=data/mine optimizer.weight_decay=0.1 optimizer.puzzle_emb_lr=1e-2 "
     "optimizer.puzzle_emb_weight_decay=0.1 ema.decay=none"),
    (f"arch=hrm data_paths=[{SUDOKU}] {SHORT} ema=True", f"python train.py hrm-sudoku data={SUDOKU} ema.decay=0.999"),
    (f"arch=trm_singlez data_paths=[{SUDOKU}] {LONG} ema=True arch.puzzle_emb_ndim=0 beta2=0.99",
     f"python train.py trm-att-sudoku data={SUDOKU} model.puzzle_emb_len=0 model.states=1 "
     "optimizer.betas=0.9,0.99"),
    (f"data_paths=[{SUDOKU}] {LONG} ema=True load_checkpoint=ck/step_9",
     f"reason import-weights ck/step_9 run=runs/begun data={SUDOKU} && "
     f"python train.py trm-att-sudoku data={SUDOKU} init_from=runs/begun"),
    (f"data_paths=[{SUDOKU}] {LONG} ema=True checkpoint_path=out training.tracker=wandb",
     f"python train.py trm-att-sudoku data={SUDOKU} training.tracker=wandb run=out"),
    # with a preset of ours, what it sets stays
    ("trm-mlp-sudoku lr=2e-4 training.steps=5", "python train.py trm-mlp-sudoku optimizer.lr=2e-4 training.steps=5"),
])  # fmt: skip
def test_a_line_is_answered(typed, line, here):
    if FULL in typed:
        put(FULL, 3_831_000)
    assert answered(typed)[0] == line
    meant(line)


@pytest.mark.parametrize(("folder", "made", "chosen", "steps"), [
    ("set", {"groups": 300}, "trm-att-sudoku", 1_406),
    ("set", {"groups": 960, "mean": 3.5, "cells": 900, "tokens": 12}, "trm-att-arc", 15_750),
    ("arc", {"groups": 300, "cells": 900, "tokens": 6}, "trm-att-maze", 1_406),
    ("maze", {"groups": 300, "cells": 81}, "trm-att-sudoku", 1_406),
    ("x,y", {"groups": 150}, "trm-att-sudoku", 1_406),
])  # fmt: skip
def test_the_folder_tells_the_puzzle_and_the_steps(folder, made, chosen, steps, here):
    for each in folder.split(","):
        put(each, **made)
    line, besides = answered(f"'data_paths=[{folder.replace(',', ', ')}]' epochs=300 global_batch_size=64")
    name, config, own = meant(line)
    assert (name, config.training.steps, own) == (chosen, steps, {"data": folder})
    assert "counted for" not in besides
    assert ("in turn" in besides) == ("," in folder)


@pytest.mark.parametrize(("typed", "said"), [
    (f"{OF_A_SET} evaluators=[] arch.puzzle_emb_ndim=8 lr=1", "ignored: evaluators=[], arch.puzzle_emb_ndim=8"),
    (f"{OF_A_SET} arch.puzzle_emb_ndim=256 arch.hidden_size=256", ""),
    (f"{OF_A_SET} arch=hrm arch.L_layers=2", "ignored: arch.H_layers=4"),
    (f"{OF_A_SET} arch=hrm arch.L_layers=2 arch.H_layers=2", ""),
    ("data_paths=[data/mine]", "data/mine does not exist: the steps are computed for 1,000 puzzles"),
    ("pretrain.py",
     f"read as arch=hrm_v1; the other code's default is arch=trm; {ARC} does not exist: the steps are computed for "
     "only the 800 tasks of ARC-AGI-1"),
])  # fmt: skip
def test_what_has_no_word_is_said(typed, said, here):
    put("set", 1000)
    assert answered(typed)[1] == said


@pytest.mark.parametrize(("typed", "said"), [
    ("arch=transformers_baseline lr=1e-4", "arch=transformers_baseline is not supported; choose from"),
    ("arch=trm global_batch_size=abc", "global_batch_size=abc of the original code is not a number; type one"),
    ("arch=trm epochs=inf", "epochs=inf of the original code is not a number"),
    ("arch=trm global_batch_size=0", "training.batch_size=0: input should be greater than or equal to 1"),
    ("arch=trm lr_min_ratio=abc", "lr_min_ratio=abc of the original code is not a number"),
    (TRM_SUDOKU, f"type: python train.py trm-att-sudoku data={SUDOKU} run=runs/a ("),
])  # fmt: skip
def test_train_answers(typed, said, here):
    refusal(["train", *typed.split()], said)


def test_under_torchrun_the_answer_has_its_processes(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert answered("arch=trm")[0].startswith("torchrun --nproc-per-node 2 train.py trm-att-arc data=")


def test_words_of_ours_are_settings_and_not_answered():
    for line in ("sudoku-6x6 optimizer.lr=1e-3 seed=1", "unknown lr=1e-3", "run=runs/a"):
        assert answer(line.split()) is None
    translated = {word.partition("=")[0] for words in VALUES.values() for word in words.split()}
    assert translated | {own for own, *_ in SAME.values()} <= {setting.key for setting in describe_settings()}
