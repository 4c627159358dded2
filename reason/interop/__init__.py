"""Weights of the original HRM and TRM code."""
