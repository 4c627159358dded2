"""Widths of floating point."""

from __future__ import annotations

import torch


def widest_float(device: torch.device) -> torch.dtype:
    """float64, or float32 on Apple's GPUs, which have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64
