"""Config sections: the base class, schedules, and the settings of the rollout."""
