"""What a section of a config is: its base class, schedules, the settings of the rollout."""
