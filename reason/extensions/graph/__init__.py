"""An optimizer step as one CUDA graph, so that a GPU never waits for the host (`training.compile=graph`)."""
