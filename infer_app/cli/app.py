"""The commands that stand by themselves, with their flags, and the groups of the others.

Bodies import what they need: `infer --help` loads neither torch nor a database.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from infer_app import __version__
from infer_app.cli.model.model_app import model_app
from infer_app.cli.project.groups import cache_app, config_app, db_app, images_app
from infer_app.cli.terminal.options import (
    AllowInt8,
    Config,
    Date,
    Device,
    DryRun,
    Executor,
    FinishBy,
    Json,
    Limit,
    LogFormat,
    Lookback,
    MaxDuration,
    MaxRejected,
    Model,
    ModelOrVersion,
    Models,
    Quiet,
    RayAddress,
    TraceFile,
    Variant,
    Verbose,
    Wait,
    Workers,
)

app = typer.Typer(
    name="infer",
    help="Predict a database's new images every night and write the results back: nothing lost, nothing twice.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(images_app, name="images")
app.add_typer(model_app, name="model")
app.add_typer(db_app, name="db")
app.add_typer(cache_app, name="cache")
app.add_typer(config_app, name="config")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"infer_app {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")] = False,
    log_format: LogFormat = None,
) -> None:
    if log_format:  # unless it is given again behind them
        context.default_map = {command: {"log_format": log_format} for command in ("run", "backfill")}


@app.command()
def quickstart(
    folder: Annotated[Path, typer.Argument(help="Where to make the project.")] = Path("demo"),
) -> None:
    """Make a project with real photos and a real model, run it, and show the result."""
    from infer_app.cli.project.quickstart import quickstart as make

    make(folder)


@app.command()
def init(
    database: Annotated[
        str | None, typer.Option("--database", help="URL of a database: looks at its tables and fills in [source].")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="URL of the one that lists the images, if results go to another.")
    ] = None,
) -> None:
    """Write a commented infer.toml here; an existing one is left alone."""
    if database is not None or source is not None:
        from infer_app.cli.project.proposal import init_from

        init_from(database, source)
        return
    from infer_app.cli.project.project import init as write

    write()


@app.command()
def run(
    date: Date = "yesterday",
    model: Models = None,
    dry_run: DryRun = False,
    limit: Limit = None,
    lookback: Lookback = None,
    finish_by: FinishBy = None,
    max_duration: MaxDuration = None,
    max_rejected: MaxRejected = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    device: Device = None,
    variant: Variant = None,
    allow_int8: AllowInt8 = None,
    workers: Workers = None,
    wait: Wait = None,
    trace: TraceFile = None,
    report: Annotated[bool, typer.Option("--report", help="Write the day's report at the end.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: LogFormat = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Predict the new images of a day and write the results back."""
    from infer_app.workers.fork_server import start_early

    start_early()  # workers load torch while this process loads the database
    from infer_app.cli.look.report import Wanted, run_and_report
    from infer_app.cli.run import run as command
    from infer_app.cli.run.run_output import Verbosity
    from infer_app.pipeline.run_days import RunLimits

    of_run: dict[str, Any] = {
        "models": model or None,
        "lookback": lookback,
        "max_rejected": max_rejected,
        "executor": executor,
        "device": device,
        "variant": variant,
        "workers": workers,
        "allow_int8": allow_int8,
        "wait": wait,
    }
    flags = {"run": of_run, "ray": {"address": ray_address}, "log": {"format": log_format}}
    limits = RunLimits(limit, finish_by, max_duration)
    verbosity = Verbosity(quiet, verbose, as_json)

    def start() -> int:
        return command.run(date, flags, limits, verbosity, dry_run, config, trace)

    if not report or dry_run:
        raise typer.Exit(start())
    raise typer.Exit(run_and_report(start, Wanted(date, model, trace, config, max_rejected)))


@app.command()
def backfill(
    first: Annotated[str, typer.Option("--from", help="The first day.")],
    last: Annotated[str, typer.Option("--to", help="The last day.")],
    model: Models = None,
    limit: Limit = None,
    finish_by: FinishBy = None,
    max_duration: MaxDuration = None,
    max_rejected: MaxRejected = None,
    variant: Variant = None,
    allow_int8: AllowInt8 = None,
    workers: Workers = None,
    wait: Wait = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    log_format: LogFormat = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """The same for each day of a range."""
    from infer_app.workers.fork_server import start_early

    start_early()
    from infer_app.cli.run import run as command
    from infer_app.cli.run.run_output import Verbosity
    from infer_app.pipeline.run_days import RunLimits

    of_run: dict[str, Any] = {
        "models": model or None,
        "lookback": 0,
        "max_rejected": max_rejected,
        "variant": variant,
        "workers": workers,
        "allow_int8": allow_int8,
        "wait": wait,
    }
    flags = {"run": of_run, "log": {"format": log_format}}
    limits = RunLimits(limit, finish_by, max_duration)
    raise typer.Exit(command.backfill(first, last, flags, limits, Verbosity(quiet, verbose, as_json), config))


@app.command()
def predictions(
    date: Date = "yesterday",
    model: ModelOrVersion = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """List the predictions of a day: one for each image and model name, of the newest version that has one."""
    from infer_app.cli.look.results import show_predictions

    show_predictions(date, model, csv, as_json, config)


@app.command()
def rejects(
    date: Date = "yesterday", model: ModelOrVersion = None, as_json: Json = False, config: Config = None
) -> None:
    """What was rejected of a day, and why."""
    from infer_app.cli.look.results import show_rejections

    show_rejections(date, model, as_json, config)


@app.command()
def retry(
    date: Date = "yesterday",
    model: ModelOrVersion = None,
    reason: Annotated[list[str] | None, typer.Option(help="Only these reasons.")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a day's rejected images pending again."""
    from infer_app.cli.look.results import retry as forget

    forget(date, model, reason or [], as_json, config)


@app.command()
def status(
    days: Annotated[int, typer.Option(min=1, help="So many days back.")] = 14,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Days and their state at a glance."""
    from infer_app.cli.look.status import show_status

    show_status(days, as_json, config)


@app.command()
def verify(
    date: Date = "yesterday", model: ModelOrVersion = None, as_json: Json = False, config: Config = None
) -> None:
    """Check a day's counts: eligible = predicted + rejected + pending, from rows. Exit code 1 if not."""
    from infer_app.cli.look.results import verify as close_books

    raise typer.Exit(close_books(date, model, as_json, config))


@app.command()
def report(
    date: Date = "yesterday",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", help="Name of a model, or the id of a version; may be repeated.  [default: all that ran]"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page.  [default: reports/DATE-MODEL.html]")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Trace of the day's run: what each process did.")
    ] = None,
    index: Annotated[
        bool, typer.Option("--index", help="An overview of all days instead: reports/index.html.")
    ] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Write a day as one HTML page, to be read in the morning, with the same as JSON beside it."""
    from infer_app.cli.look import report as command

    if index:
        command.show_index(as_json, config)
        return
    from infer_app.workers.fork_server import start_early

    start_early()  # thumbnails are made in a process of their own, which starts while this one counts
    command.report(command.Wanted(date, model, trace, config), out, as_json)


@app.command()
def explain(
    image: Annotated[str, typer.Option("--image", "-i", help="The image's id, as `infer predictions` shows it.")],
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="Its day, to find it faster.  [default: any]")
    ] = None,
    model: ModelOrVersion = None,
    replay: Annotated[bool, typer.Option("--replay", help="Score it again now and show the difference.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Everything about one image: its file, what each model made of it, and the run that did."""
    from infer_app.workers.fork_server import start_early

    start_early()  # the file is looked at in a process of its own
    from infer_app.cli.look.explain import show_image

    raise typer.Exit(show_image(image, date, model, replay, as_json, config))


@app.command()
def compare(
    models: Annotated[tuple[str, str], typer.Option("--models", help="Two models, by name or id.", metavar="A B")],
    date: Date = "yesterday",
    limit: Annotated[int, typer.Option("--limit", min=1, help="So many pairs of labels and images.")] = 10,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Where two models disagree over a day: counts, pairs of labels, the most telling images."""
    from infer_app.cli.look.compare import compare as show

    show(date, models, limit, as_json, config)


@app.command()
def doctor(
    model: Model = None,
    executor: Executor = None,
    ray_address: RayAddress = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check everything a run needs, and print the fix for each failure."""
    from infer_app.cli.project.doctor import examine

    raise typer.Exit(examine(model, as_json, config, executor, ray_address))


@app.command()
def bench(
    images: Annotated[
        Path | None, typer.Option("--images", help="Folder of images.  [default: those of --date]")
    ] = None,
    date: Date = "yesterday",
    model: Model = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many images.")] = 1000,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only this strategy; may be repeated.")] = None,
    workers: Workers = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Measure loading techniques on your images and model: what limits a run, and what each would buy."""
    from infer_app.cli.run.bench import bench as measure

    measure(images, date, model, limit, only or [], workers, as_json, config)
