"""Studies of an evaluation, one a file: what is computed from the pass, and its section of the report."""
