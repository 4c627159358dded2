"""Run directories: their creation, their data sets, and the trainer and evaluations of a run."""
