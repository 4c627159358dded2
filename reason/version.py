"""The version, defined in datasets_gen/version.py: sets record it, and datasets_gen never imports reason."""

from datasets_gen.version import __version__ as __version__
