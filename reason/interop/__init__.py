"""Checkpoints of the original HRM and TRM code."""
