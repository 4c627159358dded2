"""The version of both packages."""

__version__ = "0.2.0"
