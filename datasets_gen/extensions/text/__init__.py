"""Text for causal models: windows of bytes, words or byte pairs, split by document."""
