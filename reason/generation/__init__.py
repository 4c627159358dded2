"""Text generation by causal models."""
