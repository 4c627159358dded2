"""The version, which datasets_gen/version.py states: every set records it, and nothing there imports reason."""

from datasets_gen.version import __version__ as __version__
