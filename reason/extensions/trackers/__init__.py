"""Writes the metrics of a training to TensorBoard or Weights & Biases, too."""
