"""A step of training or evaluation as one CUDA graph, so that a GPU never waits for the host (`…compile=graph`)."""
