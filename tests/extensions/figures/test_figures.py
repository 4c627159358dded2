"""Every figure is drawn of a small trained run; eigenvalues against those of the whole Jacobian."""

import numpy as np
import pytest
import torch
from conftest import output, refusal

import reason
from reason.extensions.figures.draw import cell_jacobian, repelled
from reason.extensions.studies.probes import eigenvalues


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    train, test = np.random.default_rng(0).integers(1, 5, (2, 2, 12, 16))
    data = reason.Dataset.from_arrays(folder / "data", train=(train[0], train[1]), test=(test[0], test[1]))
    model = {"hidden_size": 16, "num_heads": 2, "h_cycles": 1, "l_cycles": 2, "puzzle_emb_len": 1}
    training = {"steps": 4, "batch_size": 4, "checkpoint_every": 2, "keep_checkpoints": 3, "compile": "none"}
    reason.train("sudoku-4x4", data=data, run=folder / "run", model=model, training=training, ema={"decay": None})
    return folder / "run"


@pytest.mark.parametrize("kind", ["spectrum", "determinants", "portrait", "trajectories", "jumps", "repulsion"])
def test_each_figure_is_drawn(kind, run, tmp_path):
    runs = {"trajectories": [str(run), str(run)], "repulsion": []}.get(kind, [str(run)])
    file = tmp_path / f"{kind}.png"
    output(["figures", kind, str(file), *runs, "--steps", "5"], str(file))
    assert file.stat().st_size > 10_000


def test_mistakes_are_named(run):
    refusal(["figures", "spectrum", "a.png"], "spectrum needs one run, got 0")
    refusal(["figures", "spectrum", "a.txt", str(run)], "ends in .png")
    refusal(["figures", "jumps", "a.png", str(run), "--steps", "0"], "--puzzles 4 --steps 0: type 1 or more")
    refusal(["figures", "jumps", "a.png", "nowhere"], "nowhere")


def test_eigenvalues_the_block_of_a_cell_and_repulsion_of_a_narrow_cone():
    weight = torch.randn(24, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def f(z):
        return (z.flatten(1) @ weight.T).view_as(z)

    z = torch.zeros(1, 6, 4, dtype=torch.float64)
    whole = torch.linalg.eigvals(weight).numpy()
    largest = np.sort(np.abs(whole))[::-1][:6]
    np.testing.assert_allclose(np.sort(np.abs(eigenvalues(f, z, 6)))[::-1], largest, rtol=1e-3)
    assert len(eigenvalues(f, z, 40)) == 24  # all of a small map, densely
    np.testing.assert_allclose(cell_jacobian(f, z, 2), weight[8:12, 8:12])
    start = torch.tensor([2.0, 1.0, 1.5]) + 0.4 * torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    unit = torch.nn.functional.normalize(repelled(start), dim=1)
    assert (unit @ unit.T).abs().mean() < 0.7
