"""What a section of a config is: its base class, capabilities and needs, schedules."""
