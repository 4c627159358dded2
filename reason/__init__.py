"""Tiny recursive reasoners: HRM, TRM, CMM and looped transformers.

Every model is a discrete dynamical system z ← F(z, x̂) with a readout, trained by deep supervision.
"""

from reason.version import __version__ as __version__
