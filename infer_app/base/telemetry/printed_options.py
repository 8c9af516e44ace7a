"""The options that a printed command needs, so that it can be run as it is printed."""

import os
import re
import shlex
from collections.abc import Sequence

_WITHOUT_CONFIG = re.compile(r"`(infer (?!init\b|quickstart\b|[^`]* --config )[a-z][^`]*)`")
_config: list[str] = []  # the file that --config of this process names, if it does


def remember_config(arguments: Sequence[str]) -> None:
    """Find the settings file in the arguments of this process or in INFER_CONFIG: printed commands name it too."""
    named = [os.environ.get("INFER_CONFIG", "")]
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, given = flag.partition("=")
        if name in ("--config", "-c"):
            named.append(given if equals else value)
    _config[:] = [one for one in named[-1:] if one]


def printed_options(*models: str) -> str:
    """Return ` --model NAME` for each of the models and ` --config FILE` if this process was given one."""
    options = [("--model", model) for model in models] + [("--config", file) for file in _config]
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in options)


def with_config(text: str) -> str:
    """Return the text with --config in its commands, which stand in backticks, if this process was given one."""
    return _WITHOUT_CONFIG.sub(lambda found: f"`{found[1]}{printed_options()}`", text) if _config else text
