"""Presets of sums: recursive models that fill the blank answer of a sum."""
