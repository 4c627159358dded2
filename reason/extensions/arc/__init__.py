"""ARC-AGI: presets, and the votes of augmented copies in an evaluation."""
