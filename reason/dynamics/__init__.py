"""Euler-Maruyama steps and Jacobian products: used by models, losses and extensions."""
