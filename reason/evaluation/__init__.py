"""Evaluation of a trained model: exact and cell accuracy at every step, and studies of the dynamics."""
