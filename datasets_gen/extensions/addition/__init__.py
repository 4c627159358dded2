"""Sums of whole numbers as text: for causal models, or with blank answers for models that fill in cells."""
