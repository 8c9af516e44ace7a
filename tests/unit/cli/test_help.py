"""The help pages: what `infer --help` lists, and options whose values are named."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer

from infer_app.base.settings.sections import LogSettings, RunSettings, Settings
from infer_app.cli import load_app
from infer_app.cli.commands.run_commands import BackfillOptions, RunOptions
from infer_app.cli.terminal.groups import GROUPS

INFER = typer.main.get_command(load_app())


def commands(command: Any = INFER, name: str = "infer") -> Iterator[tuple[str, Any]]:
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from commands(child, f"{name} {child.name}")


PAGES = [pytest.param(name, command, id=name) for name, command in commands()]


def page(command: Any, name: str) -> str:
    return command.get_help(typer.Context(command, info_name=name, terminal_width=80, max_content_width=80))


def test_infer_help_lists_every_command_once_under_a_heading_with_a_whole_sentence():
    lines = page(INFER, "infer").splitlines()
    assert [line[:-1] for line in lines if line[:-1] in GROUPS] == list(GROUPS)
    listed = [line.split() for line in lines[lines.index(f"{GROUPS[0]}:") :] if line.startswith("  ")]
    for name, command in INFER.commands.items():
        (summary,) = [" ".join(words[1:]) for words in listed if words and words[0] == name]
        assert command.help.replace("\n", " ").startswith(summary)
        assert summary.endswith(".")


@pytest.mark.parametrize(("name", "command"), PAGES)
def test_every_option_that_takes_a_value_names_it_and_not_a_type_of_python(name: str, command: Any):
    valued = [one for one in command.params if not getattr(one, "is_flag", False)]
    assert [one.name for one in valued if one.metavar is None] == []
    assert re.findall(r"<\w[^>]*>", page(command, name)) == []


@pytest.mark.parametrize(
    ("option", "section", "key"),
    [("executor", RunSettings, "executor"), ("device", RunSettings, "device"), ("log_format", LogSettings, "format")],
)
def test_the_choices_of_an_option_are_those_of_its_setting(option: str, section: Any, key: str):
    (parameter,) = [one for one in INFER.commands["run"].params if one.name == option]
    assert tuple(parameter.metavar.split("|")) == get_args(section.model_fields[key].annotation)


@pytest.mark.parametrize("options", [RunOptions(), BackfillOptions(first="2026-11-01", last="2026-11-02")])
def test_every_override_is_a_setting_and_is_none_unless_given(options: Any):
    for section, values in options.settings().items():
        known = Settings.model_fields[section].annotation.model_fields
        assert values.keys() <= known.keys()
        assert set(values.values()) <= {None, 0}  # a backfill looks back no days
