"""The `infer` command with all its commands."""

from infer_app.cli.commands import build_command, look_commands, maintain_commands, model_commands, run_commands
from infer_app.cli.terminal.groups import app
from infer_app.cli.terminal.help import GROUPS

__all__ = ["app", "build_command", "look_commands", "maintain_commands", "model_commands", "run_commands"]

app.registered_commands.sort(key=lambda one: GROUPS.index(one.rich_help_panel or ""))
