"""Integrators, Jacobian products, spectra: used by losses and probes alike."""
