"""The help page of `infer`: its commands in groups, each with the whole first sentence of its help."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

RUN, INSPECT, MODELS, MAINTAIN = GROUPS = ("Run", "Inspect results", "Models", "Maintain")
WHOLE = 1000  # characters, more than any first sentence has


class GroupedHelp(TyperGroup):
    """List each command under the heading of its rich_help_panel, in plain text: importing rich takes 0.1 s."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for group in GROUPS:
            with formatter.section(group):
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(WHOLE))
                        for name, command in self.commands.items()
                        if getattr(command, "rich_help_panel", None) == group
                    ]
                )
