"""The config of a run: its schema, overrides, and what is said of its settings."""
