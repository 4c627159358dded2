"""Generates, imports, verifies and draws puzzle sets, with numpy and numba, without torch."""
