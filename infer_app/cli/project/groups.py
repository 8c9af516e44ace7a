"""The small groups, `infer images`, `db`, `cache` and `config`: their commands and their flags."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from infer_app.cli.terminal.options import Config, Json

images_app = typer.Typer(help="The images that infer_app keeps a table of itself.", no_args_is_help=True)
db_app = typer.Typer(help="The tables of infer_app.", no_args_is_help=True)
cache_app = typer.Typer(help="Pixels kept for a second model ([cache]).", no_args_is_help=True)
config_app = typer.Typer(help="The settings in force.", no_args_is_help=True)


@images_app.command("add")
def images_add(
    paths: Annotated[
        list[str], typer.Argument(help="Files and folders, s3://bucket/folder/ (also gs://, az://), https:// images.")
    ],
    date: Annotated[str | None, typer.Option("--date", "-d", help="The day they count to.  [default: now]")] = None,
    config: Config = None,
) -> None:
    """Register files, folders and what lies elsewhere; safe to repeat."""
    from infer_app.cli.project.project import add

    add(paths, date, config)


@db_app.command("upgrade")
def db_upgrade(
    vectors: Annotated[
        Literal["bytes", "pgvector"] | None,
        typer.Option("--vectors", help="How PostgreSQL is to keep vectors from now on; those it has are converted."),
    ] = None,
    config: Config = None,
) -> None:
    """Create or bring up to date the tables of infer_app."""
    from infer_app.cli.project.project import upgrade

    upgrade(vectors, config)


@cache_app.command("status")
def cache_status(as_json: Json = False, config: Config = None) -> None:
    """What the cache holds, by recipe."""
    from infer_app.cli.project.cache import show_status

    show_status(as_json, config)


@cache_app.command("clear")
def cache_clear(as_json: Json = False, config: Config = None) -> None:
    """Remove what the cache holds. Nothing is lost but time, and a run going on is not disturbed."""
    from infer_app.cli.project.cache import clear

    clear(as_json, config)


@config_app.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Where each value comes from.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """The settings in force; passwords are masked."""
    from infer_app.cli.project.project import show_config

    show_config(origin, as_json, config)
