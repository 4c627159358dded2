"""Presets of declared puzzles train on puzzles of their page, whose labels their network can give."""

from pathlib import Path

import pytest
import torch
from test_presets import NARROW, two_steps

from datasets_gen.layout import write_dataset
from reason.config.overrides import override
from reason.data import PuzzleData
from reason.extensions.declared.presets import PAGES, sample
from reason.models import build_model
from reason.models.base import IGNORE
from reason.models.layout import IMPOSSIBLE
from reason.presets import preset


@pytest.mark.parametrize("name", ["declared-puzzle", *PAGES])
def test_two_steps(name: str, tmp_path: Path) -> None:
    two_steps(name, sample("killer" if name == "declared-puzzle" else name)[1], tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_the_network_of_a_page_can_give_every_label(name: str, tmp_path: Path) -> None:
    """Walls too, which are no values of an open cell."""
    shape = preset(name).shape
    write_dataset(tmp_path / "set", sample(name)[1], task={}, vocab_size=shape.vocab_size, structure=shape.structure)
    data = PuzzleData(tmp_path / "set", "train")
    model = build_model(override(preset(name).config(), NARROW).model, data.shape, torch.float32, None)
    batch = data.take(torch.arange(len(data)))
    context = model.encode(batch)
    logits = model.readout(model.initial_state(context), context).logits
    scored = batch.labels != IGNORE
    assert (logits[scored].gather(-1, batch.labels[scored][:, None]) > IMPOSSIBLE).all()
