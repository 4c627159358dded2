"""Weights and recordings of the original HRM and TRM code."""
