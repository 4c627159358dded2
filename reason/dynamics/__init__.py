"""Jacobian products: used by losses and extensions."""
