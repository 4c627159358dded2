"""Jacobian products and random vectors: used by models, losses and extensions."""
