"""Puzzle sets made elsewhere, read into our layout; and CSV files written from it."""
