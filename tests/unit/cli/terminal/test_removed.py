"""Flags and commands that were removed are refused by name, with what to do instead."""

import re
import sys

import pytest

from infer_app.cli import main
from infer_app.settings.removed import REMOVED

COMMANDS = [name for name in REMOVED if name.startswith("infer ")]
FLAGS = [f"infer run {name}{value}" for name in REMOVED if re.fullmatch("--[a-z0-9-]+", name) for value in ("", "=1")]


@pytest.mark.parametrize("command", [*COMMANDS, *FLAGS])
def test_what_was_removed_is_refused_by_name(command, monkeypatch, capsys):
    (name,) = [one for one in REMOVED if command.partition("=")[0].endswith(one)]
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"infer: {name} was removed\n  hint: {REMOVED[name]}\n"
