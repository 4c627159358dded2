"""How fast training and evaluation are: `python -m benchmarks.bench PRESET`."""
