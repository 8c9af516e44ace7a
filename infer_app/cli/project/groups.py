"""The commands of the small groups: `infer images`, `db`, `config` and `threshold`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from infer_app.cli.terminal.help import App
from infer_app.cli.terminal.options import Config, Json, any_date

images_app = App(help="Register images in infer_app's own table, list changed ones.", no_args_is_help=True)
db_app = App(help="Create or upgrade infer_app's tables.", no_args_is_help=True)
config_app = App(help="Show the settings in force.", no_args_is_help=True)
threshold_app = App(help="Set the score from which objects and labels are shown.", no_args_is_help=True)
NameOnly = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of a model; its thresholds hold for all its versions.")
]


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


@images_app.command("changed")
def images_changed(
    date: Annotated[str | None, any_date("all; needed for a table of your own, whose files are looked at")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """List the images whose files were replaced since they were predicted, or are missing.

    Of images in infer_app's own table it is what the last run has found in the watched folders, and `infer images add`
    where it was repeated. Of a table of your own it looks at the files of the day now.
    """
    from infer_app.cli.look.changed import show_changed

    show_changed(date, csv, as_json, config)


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


@config_app.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Show where each value comes from.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show the settings in force; passwords are masked."""
    from infer_app.cli.project.project import show_config

    show_config(origin, as_json, config)


@threshold_app.command("set")
def threshold_set(
    name: NameOnly,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="LABEL=SCORE", help="Labels with their thresholds, 0 to 1, such as cat=0.6."),
    ] = None,
    default: Annotated[
        str | None, typer.Option("--default", metavar="SCORE", help="For all labels without a threshold of their own.")
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show only objects and labels with at least these scores; nothing runs again and nothing is deleted.

    For detection and multi-label classification. Exports, samples and the views infer_shown_objects and
    infer_shown_labels follow the thresholds; of detectors also `infer report`, `infer compare` and `infer explain`. It
    prints how many objects or labels of the last days are shown before and after.
    """
    from infer_app.cli.look.threshold_commands import set_thresholds

    set_thresholds(name, given or [], default, as_json, config)


@threshold_app.command("show")
def threshold_show(name: NameOnly, as_json: Json = False, config: Config = None) -> None:
    """Show the thresholds of a model."""
    from infer_app.cli.look.threshold_commands import show_thresholds

    show_thresholds(name, as_json, config)


@threshold_app.command("remove")
def threshold_remove(
    name: NameOnly,
    labels: Annotated[
        list[str] | None, typer.Argument(metavar="LABEL", help="Labels to remove the thresholds of.")
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Remove the thresholds of labels; without labels all of the model."""
    from infer_app.cli.look.threshold_commands import remove_thresholds

    remove_thresholds(name, labels or [], as_json, config)
