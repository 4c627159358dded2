"""Looped transformers: STARS, Ouro and the readout blind spot, with their losses, exits, caches and decoding."""
