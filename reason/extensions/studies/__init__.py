"""Studies: difficulty, the halting head, stopping policies, restarts, probes of the dynamics."""
