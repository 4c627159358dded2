"""What a user can mend: each text says the value, the reason and what to type."""


class ConfigError(ValueError):
    """A setting that cannot be: the text says what was got, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss is no longer a number: the text names the step, the term and the last good checkpoint."""
