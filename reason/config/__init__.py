"""The configuration of a run: schema, schedules, overrides, descriptions of settings."""
