"""ARC-AGI: presets, and voting of augmented copies in an evaluation."""
