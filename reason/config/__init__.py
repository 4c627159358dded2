"""The config of a run: its schema, overrides, and descriptions of its settings."""
