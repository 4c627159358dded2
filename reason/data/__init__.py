"""Puzzle sets on the device: examples, batches, augmentation."""
