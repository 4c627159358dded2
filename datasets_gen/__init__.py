"""Puzzle sets: generated, imported, verified and drawn. numpy and numba, never torch."""
