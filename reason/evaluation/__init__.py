"""Reading a trained model: exact and cell accuracy at every step, and what the dynamics do."""
