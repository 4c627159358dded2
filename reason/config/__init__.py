"""One run's configuration: the sections' common base, the whole schema, schedules."""
