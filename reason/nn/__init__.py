"""Layers: small, plain, in the field's own terms. Shapes: B rows, S cells, D hidden, V vocabulary."""
