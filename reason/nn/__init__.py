"""Layers. Shapes: B rows, S cells, D hidden size, V vocabulary."""
