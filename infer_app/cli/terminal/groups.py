"""The groups of commands: `infer` itself with its own options, and those below it; and their help pages.

A help page has whole summaries of the commands, in groups, and arguments without Python's type names.
"""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

RUN, INSPECT, MODELS, MAINTAIN = GROUPS = ("Run", "Inspect results", "Models", "Maintain")
WHOLE = 1000  # characters, more than any first sentence has
_TYPE_NAME = re.compile(r" <[^<>]+>$")  # that recent versions of typer append to an argument's metavar


class PlainCommand(TyperCommand):
    """Show an argument by its metavar alone: `PATH` and not `PATH <list[str]>`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            params = [param for param in self.get_params(ctx) if param.param_type_name == kind]
            if records := [record for param in params if (record := param.get_help_record(ctx))]:
                with formatter.section(heading):
                    formatter.write_dl([(_TYPE_NAME.sub("", name), text) for name, text in records])


class WholeSummaries(TyperGroup):
    """List each command with the whole first sentence of its help, which typer cuts at the width of the terminal.

    Plain text: importing rich takes 0.1 s.
    """

    def format_commands(self, ctx: object, formatter: object) -> None:
        self._list_commands("Commands", list(self.commands), formatter)

    def _list_commands(self, heading: str, names: Iterable[str], formatter: Any) -> None:
        width = max(map(len, self.commands))
        with formatter.section(heading):
            formatter.write_dl([(name.ljust(width), self.commands[name].get_short_help_str(WHOLE)) for name in names])


class GroupedHelp(WholeSummaries):
    """List each command under the heading of its rich_help_panel."""

    def format_commands(self, ctx: object, formatter: object) -> None:
        for group in GROUPS:
            commands = self.commands.items()
            names = [name for name, command in commands if getattr(command, "rich_help_panel", None) == group]
            self._list_commands(group, names, formatter)


class App(typer.Typer):
    """A typer app whose commands have the help pages of this file."""

    def __init__(self, *, cls: type[TyperGroup] = WholeSummaries, **settings: Any) -> None:
        super().__init__(cls=cls, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=PlainCommand, **settings)


app = App(
    name="infer",
    cls=GroupedHelp,
    help="Predict a database's new images every day and write the results back: nothing lost, nothing twice.",
    epilog="Documentation: docs/index.md in the repository; docs/tutorial.md to begin with.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _below(name: str, panel: str, text: str) -> App:
    group = App(help=text, no_args_is_help=True)
    app.add_typer(group, name=name, rich_help_panel=panel)
    return group


model_app = _below("model", MODELS, "Build, check and list models, and choose the version in use.")
threshold_app = _below("threshold", INSPECT, "Set the score from which objects and labels are shown.")
labels_app = _below("labels", INSPECT, "Group the labels of a second network, and say which are allowed.")
static_app = _below("static", INSPECT, "List boxes that repeat at one place, as of a rock, and hide some.")
images_app = _below("images", MAINTAIN, "Register images in infer_app's own table.")
cameras_app = _below("cameras", MAINTAIN, "List cameras; say where they stood and how their clocks went.")
db_app = _below("db", MAINTAIN, "Create or upgrade infer_app's tables.")
config_app = _below("config", MAINTAIN, "Show the settings in force.")


def _show_version(wanted: bool) -> None:
    if wanted:
        from infer_app.base.packages import describe_version  # takes a while, which other commands save

        typer.echo(describe_version())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take --version; every other option is of a command."""
