"""What is measured of looped models in an evaluation: exits by a gate, caches, the blind spot; and their pages."""

from dataclasses import replace

import numpy as np
import pytest
import reference
import torch
from evaluators import counting, evaluator_of, read, read_set
from test_evaluator import parts_join
from test_report import check

from reason.evaluation.studies.boards import Boards
from reason.evaluation.suite import CONSUMERS
from reason.extensions.looped.model import LoopedConfig
from reason.models import build_model
from reason.rollout import unroll


def gated(data):
    torch.manual_seed(0)
    model = build_model(LoopedConfig(hidden_size=8, num_heads=1, gate="position", init_std=0.5), data.shape).double()
    torch.nn.init.normal_(model.gate.out.weight)  # cells leave at different steps
    return model


def test_an_exit_gate_costs_no_pass_of_its_own(sums, monkeypatch):
    """It looks at the pass's own steps, and at more of them only where fewer than the trained ones are asked for."""
    monkeypatch.delitem(CONSUMERS, Boards)
    for steps, taken in ((4, 4), (2, 3)):
        model = gated(sums)
        rows = counting(model)
        found = read(model, sums, steps, 4)
        assert sum(rows) == taken * len(sums)
        assert len(found["exact_by_step"]) == len(found["valid_by_step"]) == len(found["loss_by_step"]) == steps
        assert [row["loops"] for row in found["exits"]["fixed"]] == [1, 2, 3]


def test_exits_against_a_loop_over_cells(sums):
    model = gated(sums)
    found = read(model, sums, 2, 4)["exits"]
    batch = sums.take(torch.arange(len(sums)))
    with torch.no_grad():
        records = list(unroll(model, batch, 3))
    cells = (batch.labels >= 0).nonzero().tolist()
    gates = {(row, cell): [out.readout.gate[row, cell].item() for out in records] for row, cell in cells}
    for quantile in (0.3, 0.5, 0.9):
        taken = {at: reference.exit_step(gates[at], quantile) for at in gates}
        right, losses = {}, []
        for at, loop in taken.items():
            said, label = records[loop - 1].logits[at].tolist(), int(batch.labels[at])
            right[at] = int(records[loop - 1].answer[at]) == label
            losses.append(reference.cell_loss(said, label, "softmax"))
        exact = [all(ok for (row, _), ok in right.items() if row == puzzle) for puzzle in range(len(sums))]
        (line,) = [line for line in found["gate"] if line["quantile"] == quantile]
        expected = [np.mean(values) for values in (list(taken.values()), list(right.values()), losses, exact)]
        assert [line[key] for key in ("mean_loops", "cell", "ce", "exact")] == pytest.approx(expected)
    assert len({line["mean_loops"] for line in found["gate"]}) > 3
    assert found["p"] == pytest.approx(np.mean([reference.exit_distribution(each) for each in gates.values()], axis=0))


def test_the_gate_is_a_signal_of_stopping_policies(sums):
    pytest.importorskip("reason.extensions.studies")
    model = gated(sums)
    evaluator = evaluator_of(model, sums, 3, 50, studies="policies")
    from reason.extensions.studies.policies import Policies

    with torch.no_grad():
        seen, _ = evaluator.observe([Policies(evaluator)])
        batch = sums.take(torch.arange(len(sums)))
        gates = [record.readout.gate.sigmoid() for record in unroll(model, batch, 3)]
    stays, scored = torch.ones_like(gates[0]), batch.labels >= 0
    for step, gate in enumerate(gates):
        stays = stays * (1 - gate)
        expected = ((1 - stays) * scored).sum(1) / scored.sum(1)
        assert seen["gate"][step].tolist() == pytest.approx(expected.tolist(), abs=1e-5)
    rows = read(model, sums, 3, 4, studies="policies")["policies"]["rows"]
    assert "gate, calibrated" in {row["name"] for row in rows}


def test_two_processes_keep_what_one_does(sums):
    whole = replace(evaluator_of(gated(sums), sums, 3, 2, studies="caches"), likelihood="stablemax")
    assert {"exits/ways", "exits/p", "caches"} <= parts_join(whole)


@pytest.mark.drawn
def test_every_part_on_the_page(sums, tmp_path):
    config = LoopedConfig(hidden_size=8, num_heads=1, expansion=1, gate="position")
    results = read_set(sums.directory, 3, config, studies="caches,blind_spot")
    assert results["halted_by_step"] is None  # there is no head
    assert "Halting head" not in check(tmp_path, results)
    assert {path.name for path in tmp_path.glob("*.png")} >= {"exits.png", "blind_spot.png"}
