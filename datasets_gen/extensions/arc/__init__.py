"""ARC-AGI: tasks in TRM's layout, their augmentations, and the vote of the augmented copies."""
