"""A command line: options by argparse, the rest words and `section.key=value`."""

from __future__ import annotations

import argparse
import difflib
from typing import NoReturn

from reason.config.overrides import nearest_setting
from reason.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are a `ConfigError` of one line; `reason/cli/help.py` answers --help."""

    def __init__(self, prog: str, shortcuts: tuple[str, ...]):
        super().__init__(prog=prog, add_help=False, allow_abbrev=False)
        self.shortcuts = shortcuts  # words that are typed as NAME=VALUE without a section
        self.add_argument("words", nargs="*")

    def error(self, message: str) -> NoReturn:
        """What argparse calls for a value of the wrong type or a missing one."""
        raise ConfigError(f"{message}; see: python {self.prog} --help")

    def parsed(self, arguments: list[str]) -> argparse.Namespace:
        """The options and words of a command line.

        Raises:
            ConfigError: an unknown option (the setting that it stands for is named), or a value of the wrong type.
        """
        found, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            options = [option for action in self._actions for option in action.option_strings]
            raise ConfigError(_unknown_option(unknown[0], arguments, options, self.shortcuts))
        return found


def _unknown_option(option: str, arguments: list[str], options: list[str], shortcuts: tuple[str, ...]) -> str:
    name, _, value = option.partition("=")
    near = difflib.get_close_matches(name.replace("_", "-"), options, n=1, cutoff=0.7)
    if near:
        return f"{name} is no option; did you mean {near[0]}?"
    after = arguments[arguments.index(option) + 1 :]
    if not value and after and "=" not in after[0] and not after[0].startswith("--"):
        value = after[0]
    bare = name.lstrip("-")
    setting = bare if bare in shortcuts else nearest_setting(bare)
    if setting is None:
        known = f"options are {', '.join(options)}, and " if options else ""
        return f"{name} is no option; {known}settings are typed section.key=value"
    typed = f"{setting}={value}" if value and " " not in setting and "=" not in setting else setting
    return f"{name} is no option; settings are typed section.key=value, this one {typed}"
