"""All commands and their flags. Bodies import what they need: `infer --help` loads neither torch nor a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from infer_app import __version__

app = typer.Typer(
    name="infer",
    help="Predict a database's new images every night and write the results back: nothing lost, nothing twice.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
images_app = typer.Typer(help="The images that infer_app keeps a table of itself.", no_args_is_help=True)
model_app = typer.Typer(help="Build, prove and list models.", no_args_is_help=True)
db_app = typer.Typer(help="The tables of infer_app.", no_args_is_help=True)
cache_app = typer.Typer(help="Pixels kept for a second model ([cache]).", no_args_is_help=True)
config_app = typer.Typer(help="The settings in force.", no_args_is_help=True)
app.add_typer(images_app, name="images")
app.add_typer(model_app, name="model")
app.add_typer(db_app, name="db")
app.add_typer(cache_app, name="cache")
app.add_typer(config_app, name="config")

Config = Annotated[
    Path | None,
    typer.Option("--config", "-c", envvar="INFER_CONFIG", help="The settings file.  [default: ./infer.toml]"),
]
Date = Annotated[str, typer.Option("--date", "-d", help="2026-11-20, today or yesterday.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else there.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", "-m", help="Name of a model. Repeated: several, images decoded once for all of one recipe."
    ),
]
Model = Annotated[str | None, typer.Option("--model", "-m", help="Name of a model.")]
AllowInt8 = Annotated[
    bool | None,
    typer.Option("--allow-int8/--no-allow-int8", help="auto may take int8.  [default: [run] allow_int8]"),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=0, help="Processes; 0: as many as were measured best here.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Silent on success, for cron.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", help="Of the log on standard error: text, or json, an object a line.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="All of it on a sample, writing nothing: how fast will it be?")]
TraceFile = Annotated[Path | None, typer.Option("--trace", help="Write what each process did when, for Perfetto.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many images.")]
FinishBy = Annotated[str | None, typer.Option("--finish-by", help="Stop cleanly at HH:MM (exit code 75).")]
MaxDuration = Annotated[float | None, typer.Option("--max-duration", min=0, help="Stop cleanly after so many seconds.")]
MaxRejected = Annotated[
    str | None, typer.Option("--max-rejected", help="More than this ends with exit code 3: 5% (at least 10) or 25.")
]
Wait = Annotated[
    bool | None, typer.Option("--wait", help="Wait for another run that holds the day, instead of exit code 13.")
]
Lookback = Annotated[int | None, typer.Option("--lookback", min=0, help="Days before it to look at again.")]
Variant = Annotated[str | None, typer.Option("--variant", help="Variant of the model.")]
Executor = Annotated[
    str | None, typer.Option("--executor", help="auto, cpu, cuda: its ring, also without a GPU; or ray.")
]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", help="Of its cluster: auto, host:port, or local for this machine alone.")
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="auto, cpu or cuda: with cuda a run that has no GPU variant to take ends with 12."),
]


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
    from infer_app.cli.quickstart import quickstart as make

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
        from infer_app.cli.proposal import init_from

        init_from(database, source)
        return
    from infer_app.cli.project import init as write

    write()


@images_app.command("add")
def images_add(
    paths: Annotated[
        list[str], typer.Argument(help="Files and folders, s3://bucket/folder/ (also gs://, az://), https:// images.")
    ],
    date: Annotated[str | None, typer.Option("--date", "-d", help="The day they count to.  [default: now]")] = None,
    config: Config = None,
) -> None:
    """Register files, folders and what lies elsewhere; safe to repeat."""
    from infer_app.cli.project import add

    add(paths, date, config)


@model_app.command("build")
def model_build(
    source: Annotated[str, typer.Argument(help="A TorchScript file, or package.module:function giving a module.")],
    name: Annotated[str, typer.Option("--name", "-n", help="The model's name.")],
    weights: Annotated[Path | None, typer.Option(help="State dict or safetensors for a function's module.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Class names, one a line.")] = None,
    recipe: Annotated[
        str, typer.Option(help="resize-crop (torchvision, timm), crop-resize or stretch.")
    ] = "resize-crop",
    size: Annotated[int, typer.Option(min=1, help="Height and width of the model's input.")] = 224,
    resize: Annotated[int | None, typer.Option(min=1, help="resize-crop: shorter side before the crop.")] = None,
    crop_pct: Annotated[float | None, typer.Option(help="resize-crop as timm writes it: size / resize.")] = None,
    crop: Annotated[float | None, typer.Option(help="crop-resize: the square's share of the shorter side.")] = None,
    interpolation: Annotated[str, typer.Option(help="bicubic or bilinear.")] = "bicubic",
    exif: Annotated[str, typer.Option(help="apply or ignore the EXIF orientation.")] = "apply",
    decode: Annotated[
        str,
        typer.Option(help="exact; scaled: large JPEGs at a fraction of their size; or gpu: by a GPU, where it can."),
    ] = "exact",
    preprocess: Annotated[
        str | None, typer.Option(help="package.module:function instead of a recipe: RGB uint8 (H, W, 3) in and out.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Of the channels, on the 0-1 scale.  [default: ImageNet's]")] = None,
    std: Annotated[str | None, typer.Option(help="The same.  [default: ImageNet's]")] = None,
    input_format: Annotated[
        str, typer.Option("--input", help="float-nchw, or uint8-nhwc for a module that normalises by itself.")
    ] = "float-nchw",
    output: Annotated[str, typer.Option(help="classification, embedding, regression or raw.")] = "classification",
    activation: Annotated[
        str, typer.Option(help="classification: softmax, sigmoid, or none for probabilities.")
    ] = "softmax",
    threshold: Annotated[float, typer.Option(min=0, max=1, help="sigmoid: labels from this score on.")] = 0.5,
    top_k: Annotated[int, typer.Option(min=1, help="softmax: so many best classes are kept.")] = 5,
    vector_dtype: Annotated[str, typer.Option(help="embedding: float32 or float16.")] = "float32",
    golden: Annotated[Path | None, typer.Option(help="Folder of images to prove the model on before each run.")] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="Folder of images like those to come: also makes the int8 variant.")
    ] = None,
    min_agreement: Annotated[
        str, typer.Option(help="Share of the labels that int8 must keep for a run to take it.")
    ] = "97%",
    variant: Annotated[
        list[str] | None,
        typer.Option(help="GPU variant to make on this machine: trt, cuda, trt-bf16 or cuda-bf16; may be repeated."),
    ] = None,
    tune: Annotated[bool, typer.Option(help="Measure here how many processes and threads are fastest.")] = True,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a model artifact: the source, its recipe and outputs, and golden images that prove it before every run."""
    from infer_app.cli import model

    recipe_flags = model.RecipeFlags(recipe, size, resize, crop_pct, crop, interpolation, exif, decode, preprocess)
    output_flags = model.OutputFlags(output, activation, threshold, top_k, vector_dtype)
    variant_flags = model.VariantFlags(calibrate, min_agreement, tune, tuple(variant or ()))
    model.build(
        source,
        name,
        weights,
        labels,
        recipe_flags,
        mean,
        std,
        input_format,
        output_flags,
        golden,
        variant_flags,
        as_json,
        config,
    )


@model_app.command("check")
def model_check(
    name: Annotated[str, typer.Argument(help="Name of a model.")],
    against: Annotated[str, typer.Option(help="Your package.module:function: path in, scores or label out.")],
    images: Annotated[Path, typer.Option(help="Folder of your images.")],
    limit: Limit = None,
    workers: Workers = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Your own function beside ours on your images: agreement, the worst images, both rates."""
    from infer_app.cli.check import check

    check(name, against, images, limit, workers, as_json, config)


@model_app.command("list")
def model_list(as_json: Json = False, config: Config = None) -> None:
    """The models that were built, the newest of a name first."""
    from infer_app.cli.model import list_models

    list_models(as_json, config)


@model_app.command("show")
def model_show(
    name: Annotated[str, typer.Argument(help="Name of a model.")], as_json: Json = False, config: Config = None
) -> None:
    """What a model is, its variants, and what was measured of them on each machine; --json for the whole manifest."""
    from infer_app.cli.model import show

    show(name, as_json, config)


@model_app.command("tune")
def model_tune(name: Annotated[str, typer.Argument(help="Name of a model.")], config: Config = None) -> None:
    """Measure its variants, batch sizes, processes and threads on this machine again."""
    from infer_app.cli.model import tune

    tune(name, config)


@model_app.command("verify")
def model_verify(
    name: Annotated[str | None, typer.Argument(help="Name of a model; without it all of them.")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check every file of a model against its checksum, then its golden images."""
    from infer_app.cli.model import verify as verify_models

    verify_models(name, as_json, config)


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
    from infer_app.loading.nursery import start_early

    start_early()  # workers load torch while this process loads the database
    from infer_app.cli import run as command
    from infer_app.cli.answers import Voice
    from infer_app.cli.report import run_and_report

    flags = command.run_flags(
        model,
        log_format,
        lookback=lookback,
        max_rejected=max_rejected,
        executor=executor,
        device=device,
        variant=variant,
        workers=workers,
        allow_int8=allow_int8,
        wait=wait,
    )
    flags["ray.address"] = ray_address
    limits = command.Limits(limit, finish_by, max_duration)
    voice = Voice(quiet, verbose, as_json)

    def start() -> int:
        return command.run(date, flags, limits, voice, dry_run, config, trace)

    is_reported = report and not dry_run
    raise typer.Exit(run_and_report(start, date, model, trace, config) if is_reported else start())


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
    from infer_app.loading.nursery import start_early

    start_early()
    from infer_app.cli import run as command
    from infer_app.cli.answers import Voice

    flags = command.run_flags(
        model,
        log_format,
        lookback=0,
        max_rejected=max_rejected,
        variant=variant,
        workers=workers,
        allow_int8=allow_int8,
        wait=wait,
    )
    limits = command.Limits(limit, finish_by, max_duration)
    raise typer.Exit(command.backfill(first, last, flags, limits, Voice(quiet, verbose, as_json), config))


@app.command()
def predictions(
    date: Date = "yesterday",
    model: Model = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """What was predicted for a day."""
    from infer_app.cli.look import show_predictions

    show_predictions(date, model, csv, as_json, config)


@app.command()
def rejects(date: Date = "yesterday", model: Model = None, as_json: Json = False, config: Config = None) -> None:
    """What was rejected of a day, and why."""
    from infer_app.cli.look import show_rejections

    show_rejections(date, model, as_json, config)


@app.command()
def retry(
    date: Date = "yesterday",
    model: Model = None,
    reason: Annotated[list[str] | None, typer.Option(help="Only these reasons.")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a day's rejected images pending again."""
    from infer_app.cli.look import retry as forget

    forget(date, model, reason or [], as_json, config)


@app.command()
def status(
    days: Annotated[int, typer.Option(min=1, help="So many days back.")] = 14,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Days and their state at a glance."""
    from infer_app.cli.status import show_status

    show_status(days, as_json, config)


@app.command()
def verify(date: Date = "yesterday", model: Model = None, as_json: Json = False, config: Config = None) -> None:
    """Close the books of a day: eligible = predicted + rejected + pending, from rows. Exit code 1 if not."""
    from infer_app.cli.look import verify as close_books

    raise typer.Exit(close_books(date, model, as_json, config))


@app.command()
def report(
    date: Date = "yesterday",
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="Name of a model; may be repeated.  [default: all that ran]"),
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
    from infer_app.cli import report as command

    if index:
        command.show_index(as_json, config)
        return
    from infer_app.loading.nursery import start_early

    start_early()  # thumbnails are made in a process of their own, which starts while this one counts
    command.report(date, model, out, trace, as_json, config)


@app.command()
def explain(
    image: Annotated[str, typer.Option("--image", "-i", help="The image's id, as `infer predictions` shows it.")],
    date: Annotated[
        str | None, typer.Option("--date", "-d", help="Its day, to find it faster.  [default: any]")
    ] = None,
    model: Model = None,
    replay: Annotated[bool, typer.Option("--replay", help="Score it again now and show the difference.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Everything about one image: its file, what each model made of it, and the run that did."""
    from infer_app.loading.nursery import start_early

    start_early()  # the file is looked at in a process of its own
    from infer_app.cli.explain import show_image

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
    from infer_app.cli.compare import compare as show

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
    from infer_app.cli.doctor import examine

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
    from infer_app.cli.bench import bench as measure

    measure(images, date, model, limit, only or [], workers, as_json, config)


@db_app.command("upgrade")
def db_upgrade(
    vectors: Annotated[
        Literal["bytes", "pgvector"] | None,
        typer.Option("--vectors", help="How PostgreSQL is to keep vectors from now on; those it has are converted."),
    ] = None,
    config: Config = None,
) -> None:
    """Create or bring up to date the tables of infer_app."""
    from infer_app.cli.project import upgrade

    upgrade(vectors, config)


@cache_app.command("status")
def cache_status(as_json: Json = False, config: Config = None) -> None:
    """What the cache holds, by recipe."""
    from infer_app.cli.cache import show_status

    show_status(as_json, config)


@cache_app.command("clear")
def cache_clear(as_json: Json = False, config: Config = None) -> None:
    """Remove what the cache holds. Nothing is lost but time, and a run going on is not disturbed."""
    from infer_app.cli.cache import clear

    clear(as_json, config)


@config_app.command("show")
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Where each value comes from.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """The settings in force; passwords are masked."""
    from infer_app.cli.project import show_config

    show_config(origin, as_json, config)
