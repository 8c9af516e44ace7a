"""The commands of the small groups: `infer images`, `infer db`, `infer cache` and `infer config`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from infer_app.cli.terminal.help import App
from infer_app.cli.terminal.options import Config, Json

images_app = App(help="Register images in infer_app's own table.", no_args_is_help=True)
db_app = App(help="Create or upgrade infer_app's tables.", no_args_is_help=True)
cache_app = App(help="Show or clear the cache of decoded pixels ([cache]).", no_args_is_help=True)
config_app = App(help="Show the settings in force.", no_args_is_help=True)


@images_app.command("add")
def images_add(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH_OR_URL",
            help="Files, folders, s3://bucket/folder/ (also gs://, az://) and https:// addresses of images.",
        ),
    ],
    date: Annotated[
        str | None, typer.Option("--date", "-d", metavar="DATE", help="The day the images belong to.  [default: now]")
    ] = None,
    config: Config = None,
) -> None:
    """Register images by file, folder or URL; safe to repeat.

    Their folders and places are added to the locations that may be read.
    """
    from infer_app.cli.project.project import add

    add(paths, date, config)


@db_app.command("upgrade")
def db_upgrade(
    vectors: Annotated[
        Literal["bytes", "pgvector"] | None,
        typer.Option(
            "--vectors",
            metavar="bytes|pgvector",
            help="How PostgreSQL stores vectors from now on; existing ones are converted.  [default: as before]",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Create infer_app's tables, or bring them up to date."""
    from infer_app.cli.project.project import upgrade

    upgrade(vectors, config)


@cache_app.command("status")
def cache_status(as_json: Json = False, config: Config = None) -> None:
    """Show what the cache holds for each recipe."""
    from infer_app.cli.project.cache import show_status

    show_status(as_json, config)


@cache_app.command("clear")
def cache_clear(as_json: Json = False, config: Config = None) -> None:
    """Remove everything the cache holds.

    Only time is lost, and a run in progress is not disturbed.
    """
    from infer_app.cli.project.cache import clear

    clear(as_json, config)


@config_app.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show the settings in force; passwords are masked."""
    from infer_app.cli.project.project import show_config

    show_config(origin, as_json, config)
