"""Training: loop, optimizers, EMA, precision, checkpoints, monitor, logs."""
