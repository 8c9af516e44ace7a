"""The `infer` command: all its commands, and its own options."""

from __future__ import annotations

from typing import Annotated

import typer

from infer_app import __version__
from infer_app.cli.commands import build_command, look_commands, maintain_commands, model_commands, run_commands
from infer_app.cli.terminal.groups import app
from infer_app.cli.terminal.help import GROUPS
from infer_app.cli.terminal.options import LogFormat

__all__ = ["app", "build_command", "look_commands", "maintain_commands", "model_commands", "run_commands"]

app.registered_commands.sort(key=lambda one: GROUPS.index(one.rich_help_panel or ""))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"infer_app {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_format: LogFormat = None,
) -> None:
    if log_format:  # the default of the commands' own --log-format
        context.default_map = {command: {"log_format": log_format} for command in ("run", "backfill")}
