"""Data parallelism: one training, or one evaluation, on several processes that torchrun starts."""
