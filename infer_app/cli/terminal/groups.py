"""The groups of commands: `infer` itself with its own options, and those below it."""

from typing import Annotated

import typer

from infer_app import __version__
from infer_app.cli.terminal.help import INSPECT, MAINTAIN, MODELS, App, GroupedHelp
from infer_app.cli.terminal.options import LogFormat

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
images_app = _below("images", MAINTAIN, "Register images in infer_app's own table, list changed ones.")
db_app = _below("db", MAINTAIN, "Create or upgrade infer_app's tables.")
config_app = _below("config", MAINTAIN, "Show the settings in force.")


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
