"""The metrics of a training, also in TensorBoard or Weights & Biases."""
