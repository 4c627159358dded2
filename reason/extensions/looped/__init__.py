"""Looped transformers: STARS, Ouro and the readout blind spot, with their losses, exits, caches and decoding."""

from reason.plugins import EVALUATIONS

EVALUATIONS |= {
    "evaluation.blind_spot=true": "norms, radial gradients, clamps: what the readout does not see",
    "evaluation.caches=true": "decode with keys and values per loop, and shared",
}
