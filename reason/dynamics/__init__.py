"""Integrators and Jacobian products: used by models, losses and extensions."""
