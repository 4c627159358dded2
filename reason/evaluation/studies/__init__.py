"""Studies of an evaluation, one per file: a computation on the pass, and its section of the report."""
