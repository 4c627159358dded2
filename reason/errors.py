"""Errors that a user can correct: each text says the value, the reason and what to type."""


class ConfigError(ValueError):
    """An invalid setting or argument: the text says what was got, what is allowed and what to type."""


class Diverged(RuntimeError):
    """A loss is NaN or infinite: the text names the step, the term and the last good checkpoint."""
