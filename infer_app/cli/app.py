"""The `infer` command: its commands and command groups.

Bodies import what they need: `infer --help` loads neither torch nor a database.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infer_app import __version__
from infer_app.cli.model.model_app import model_app
from infer_app.cli.project.groups import config_app, db_app, images_app, threshold_app
from infer_app.cli.terminal.export_options import ExportOptions, SampleOptions
from infer_app.cli.terminal.help import INSPECT, MAINTAIN, MODELS, RUN, App, GroupedHelp
from infer_app.cli.terminal.options import (
    BackfillOptions,
    Config,
    Date,
    Executor,
    Json,
    LogFormat,
    Model,
    ModelOrVersion,
    ModelsOrVersions,
    RayAddress,
    RunOptions,
    Until,
    any_date,
    with_options,
)
from infer_app.errors import UsageError

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
app.add_typer(model_app, name="model", rich_help_panel=MODELS)
app.add_typer(threshold_app, name="threshold", rich_help_panel=INSPECT)
app.add_typer(images_app, name="images", rich_help_panel=MAINTAIN)
app.add_typer(db_app, name="db", rich_help_panel=MAINTAIN)
app.add_typer(config_app, name="config", rich_help_panel=MAINTAIN)


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


@app.command(rich_help_panel=RUN)
def quickstart(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to make the project.")] = Path("demo"),
) -> None:
    """Make a demo project with real photos and run it.

    The photos and the model come from installed packages. Existing files are kept.
    """
    from infer_app.cli.project.quickstart import make_demo

    make_demo(folder)


@app.command(rich_help_panel=RUN)
def init(
    database: Annotated[
        str | None,
        typer.Option(
            "--database", metavar="URL", help="A database to read tables from, to fill in [source].  [default: none]"
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="URL",
            help="The database that lists the images, if results go to another.  [default: --database]",
        ),
    ] = None,
) -> None:
    """Write a commented infer.toml here; keep an existing one.

    Without a database it is for a folder of photos, whose new images each run registers.
    """
    if database is not None or source is not None:
        from infer_app.cli.project.proposal import init_from

        init_from(database, source)
        return
    from infer_app.cli.project.project import init as init_project

    init_project()


@app.command(rich_help_panel=RUN)
@with_options(RunOptions)
def run(options: RunOptions) -> None:
    """Predict the new images of a day and write the results.

    The days before it are checked for late images (--lookback).
    """
    from infer_app.workers.fork_server import start_early

    start_early()  # workers load torch while this process loads the database
    from infer_app.cli.run.run import run as run_command

    if not options.report or options.dry_run:
        raise typer.Exit(run_command(options))
    from infer_app.cli.look.report import ReportRequest, run_and_report

    request = ReportRequest(options.date, options.model, options.trace, options.config, options.max_rejected)
    raise typer.Exit(run_and_report(lambda: run_command(options), request))


@app.command(rich_help_panel=RUN)
@with_options(BackfillOptions)
def backfill(options: BackfillOptions) -> None:
    """Predict the new images of each day of a range of days."""
    from infer_app.workers.fork_server import start_early

    start_early()
    from infer_app.cli.run.run import backfill as backfill_command

    raise typer.Exit(backfill_command(options))


@app.command(rich_help_panel=INSPECT)
def status(
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Number of days, up to today.")] = 14,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show the last days, their counts and their state."""
    from infer_app.cli.look.status import show_status

    show_status(days, as_json, config)


@app.command(rich_help_panel=INSPECT)
def report(
    date: Date = "yesterday",
    model: ModelsOrVersions = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="The page.  [default: reports/DATE-MODEL.html]"),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="PATH", help="Trace of the day's run, for a timeline of each process."),
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="Write an overview of all days instead: reports/index.html.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Write the report of a day as one HTML page and as JSON."""
    from infer_app.cli.look import report as command

    if index:
        command.show_index(as_json, config)
        return
    from infer_app.workers.fork_server import start_early

    start_early()  # thumbnails are made in another process, which starts while this one counts
    command.report(command.ReportRequest(date, model, trace, config), out, as_json)


@app.command(rich_help_panel=INSPECT)
def predictions(
    date: Date = "yesterday",
    until: Until = None,
    model: ModelOrVersion = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """List the predictions of a day or of a range of days.

    There is one for each image and model name: that of the version in use or, where it has none, of the version that
    was in use before. Of detected objects it lists their number and the best one, as they are stored: `infer threshold`
    hides none of them here.
    """
    from infer_app.cli.look.results import show_predictions

    show_predictions(date, model, csv, as_json, config, until)


@app.command(rich_help_panel=INSPECT)
@with_options(ExportOptions)
def export(options: ExportOptions) -> None:
    """Write predictions in a format of another program.

    What is below the model's thresholds is left out. The file appears at once, when it is complete.
    """
    from infer_app.cli.look.export import export_days

    export_days(options)


@app.command(rich_help_panel=INSPECT)
@with_options(SampleOptions)
def sample(options: SampleOptions) -> None:
    """Choose images to label next, with their predictions."""
    from infer_app.cli.look.export import export_sample

    export_sample(options)


@app.command(rich_help_panel=INSPECT)
def rejects(
    date: Date = "yesterday", model: ModelOrVersion = None, as_json: Json = False, config: Config = None
) -> None:
    """List the rejected images of a day and the reasons."""
    from infer_app.cli.look.results import show_rejections

    show_rejections(date, model, as_json, config)


@app.command(rich_help_panel=INSPECT)
def pending(
    date: Annotated[str | None, any_date("list the days that have any")] = None,
    model: Model = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """List the images that wait for a run, and why.

    Without --date, it lists the days that have such images; of those that no run covers any more, the last 500,000
    images are examined.
    """
    from infer_app.workers.fork_server import start_early

    start_early()  # locations are checked in another process
    from infer_app.cli.look.pending import show_pending

    show_pending(date, model, csv, as_json, config)


@app.command(rich_help_panel=INSPECT)
def explain(
    image: Annotated[
        str, typer.Option("--image", "-i", metavar="ID", help="The image's id, as `infer predictions` prints it.")
    ],
    date: Annotated[str | None, any_date("any; the image is found faster with it")] = None,
    model: ModelOrVersion = None,
    replay: Annotated[bool, typer.Option("--replay", help="Predict the image again and show the difference.")] = False,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="PATH", help="Draw the objects over the picture: an SVG file for a browser."),
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show an image's file and results, or why it has none."""
    from infer_app.workers.fork_server import start_early

    start_early()  # the file is read in another process
    from infer_app.cli.look.explain import show_image

    raise typer.Exit(show_image(image, date, model, replay, draw, as_json, config))


@app.command(rich_help_panel=INSPECT)
def compare(
    models: Annotated[
        tuple[str, str],
        typer.Option("--models", metavar="A B", help="Two models or two versions of one, each as NAME or NAME@ID."),
    ],
    date: Date = "yesterday",
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, metavar="N", help="Show at most this many labels or pairs of them, and images."),
    ] = 10,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Show how often and where two models disagree over a day.

    Detected objects are matched by label and box (IoU of at least 0.5): those that the thresholds of each model show.
    """
    from infer_app.cli.look.compare import compare as show_comparison

    show_comparison(date, models, limit, as_json, config)


@app.command(rich_help_panel=INSPECT)
def verify(
    date: Annotated[str | None, any_date("yesterday; with --replay any")] = None,
    model: ModelOrVersion = None,
    replay: Annotated[
        str | None,
        typer.Option(
            "--replay",
            metavar="N|SHARE",
            help="Also predict stored rows again, a random number or share of all such as 1%, and compare.",
        ),
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check the counts of a day and the rows of all days.

    Eligible images must be those predicted, rejected and pending, counted from the rows of the tables. Of all days, no
    prediction, object, rejection or run may say what no run writes. A row that --replay finds to be another than what
    its network gives for its picture is named, with what changed. Exit code 1 if anything is wrong.
    """
    from infer_app.cli.look.verify import verify as verify_rows

    raise typer.Exit(verify_rows(date, model, replay, as_json, config))


@app.command(rich_help_panel=MAINTAIN)
def doctor(
    model: Model = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check everything a run needs; print a fix for each failure."""
    from infer_app.cli.project.doctor import examine

    raise typer.Exit(examine(model, as_json, config, executor, ray_address))


@app.command(rich_help_panel=MAINTAIN)
def retry(
    images: Annotated[
        list[str] | None,
        typer.Option(
            "--image",
            "-i",
            metavar="ID",
            help="Only this image, which may also have a prediction, of any day; may be repeated.",
        ),
    ] = None,
    replaced: Annotated[
        bool,
        typer.Option("--replaced", help="The images that `infer images changed` lists as replaced, of any day."),
    ] = False,
    date: Annotated[str | None, any_date("yesterday; with --image or --replaced any")] = None,
    model: ModelOrVersion = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Only images rejected for this reason; may be repeated.  [default: all]"),
    ] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make rejected images, or replaced ones, pending again.

    By day, this removes the rejections; by --image and --replaced also the predictions of the models that a run uses.
    It prints the command that predicts the images again.
    """
    from infer_app.cli.look.results import retry_images, retry_rejected, retry_replaced

    given = {"--image": images, "--replaced": replaced, "--reason": reason}
    if len(both := [flag for flag, value in given.items() if value]) > 1:
        raise UsageError(f"{both[0]} and {both[1]} exclude each other", "leave one of them out")
    if images:
        retry_images(images, date, model, as_json, config)
    elif replaced:
        retry_replaced(date, model, as_json, config)
    else:
        retry_rejected(date or "yesterday", model, reason or [], as_json, config)


@app.command(rich_help_panel=MAINTAIN)
def forget(
    missing: Annotated[
        bool,
        typer.Option("--missing", help="Those of pictures whose file is gone, or that your table lists no more."),
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Those of all versions of a model, or with NAME@ID of one.")
    ] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Those of all days before this one.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Delete results of gone pictures, a model or older days.

    It says how much it deletes for good, and asks before. What it forgot is not predicted again by itself. It can be
    repeated after it was interrupted.
    """
    from infer_app.cli.project.forget import forget_days, forget_missing, forget_model

    if sum((missing, model is not None, before is not None)) != 1:
        raise UsageError("say what to forget, one at a time", "--missing, --model NAME or --before DATE")
    if model is not None:
        forget_model(model, yes, as_json, config)
    elif before is not None:
        forget_days(before, yes, as_json, config)
    else:
        forget_missing(yes, as_json, config)
