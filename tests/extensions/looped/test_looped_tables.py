"""What a row of STARS, Ouro or the blind spot prints is what its config says."""

from test_tables import said_by_their_configs

from reason.presets import TABLES

PRINTED = {
    r"JSRR with λ = ([\d.]+)|^λ = ([\d.]+)": "loss.weights.jsrr",
    r"norm penalty ([\d.]+)": "loss.weights.norm_penalty",
    r"with T = (\d+)": "rollout.loops.count",
    r"one layer of D (\d+)": "model.hidden_size",
}
WORDS = {
    r"^(pre|post)\b(-sandwich)?": ("model.norm_placement", "{}{}"),
    r"(raw) readout": ("model.readout", "raw"),
    r"loss at every loop": ("rollout.loops.supervision", "per-loop"),
    r"(log-normal|poisson|uniform) set": ("rollout.loops.random.law", "{}"),
    r"L2 baseline": ("loss.weights.l2", 1),
}


def test_what_a_row_prints_is_what_its_config_says() -> None:
    own = [table for table in TABLES if table.name.startswith(("stars", "blindspot", "ouro"))]
    assert len(own) == 28
    said_by_their_configs(own, PRINTED, WORDS)
