"""Studies of looped transformers, and of any model's readout."""
