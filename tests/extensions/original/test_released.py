"""Checkpoints of the original code, one of each family, as it saves them: from its file to the hub and back.

fixtures/released: FAMILY.pt, what torch.save made of a model of the authors' code at small size, with its prefixes;
EqR's is a whole state of training. recorded.npz: the settings, a batch, and logits and q of four steps that the same
code computes from these weights in float64. EqR's are from recorded starts and without its noise.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import output

import reason
from datasets_gen.layout import Split, write_dataset
from reason.config.overrides import read_config
from reason.extensions.export.hub import Reasoner
from reason.models.base import Batch
from reason.models.recursion import RecursiveState
from reason.rollout import unroll

RELEASED = Path(__file__).parents[2] / "fixtures" / "released"
SAID = {  # of what was read
    "trm-mlp": "TRM (mlp), ",
    "trm-attention": "TRM (attention), ",
    "trm-singlez": "TRM (attention), a single z, ",  # every weight in bfloat16
    "hrm": "HRM, ",
    "cgar": "TRM (mlp), ",
    "eqr": "weights from 'ema'",
}


def steps_of(name, recorded):
    """Logits (T, B, S, V) and q (T, B) of a run on the recorded batch, in float64."""
    model = reason.load(name, training={"precision": "fp32"}).model.double()
    model.dtype = torch.float64
    batch = Batch(*(torch.from_numpy(recorded[key]).long() for key in ("inputs", "labels", "puzzle_identifiers")))
    drawn = recorded.get("start")
    start = None if drawn is None else lambda state: RecursiveState(*torch.from_numpy(drawn))
    with torch.no_grad():
        readouts = [record.readout for record in unroll(model, batch, 4, start=start)]
    return np.stack([out.logits for out in readouts]), np.stack([out.q_halt for out in readouts])


@pytest.mark.parametrize("family", SAID)
def test_a_released_checkpoint_keeps_its_answers_on_the_way_to_the_hub_and_back(family, hub):
    with np.load(RELEASED / "recorded.npz") as arrays:
        recorded = {key.partition("/")[2]: arrays[key] for key in arrays.files if key.startswith(f"{family}/")}
    splits = {"test": Split.of_puzzles(recorded["inputs"], recorded["labels"])}
    identifiers = [""] * (1 if family == "eqr" else 4)
    write_dataset("set", splits, task={}, vocab_size=5, identifiers=identifiers)
    shutil.copy(RELEASED / f"{family}.pt", "step_65100")
    if family != "eqr":  # whose file holds its own
        Path("all_config.yaml").write_text(str(recorded["config"]))
    printed = output(["import-weights", "step_65100", "run=runs/theirs", "data=set"], SAID[family])
    assert "assumed" not in printed
    config = read_config(Path("runs/theirs/config.json"))
    assert config.training.precision == "auto"  # their initial states are bfloat16
    Reasoner.from_pretrained("runs/theirs").push_to_hub(f"you/{family}")
    for name in ("runs/theirs", f"hf:you/{family}"):
        logits, q = steps_of(name, recorded)
        np.testing.assert_allclose(logits, recorded["logits"], rtol=0, atol=1e-6)
        np.testing.assert_allclose(q, recorded["q"], rtol=0, atol=1e-6)
