"""Generation on several machines: `--shard I/N` and `merge`."""
