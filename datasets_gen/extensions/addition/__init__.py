"""Sums of whole numbers as text, for causal models, and with blank answers for models that fill cells."""
