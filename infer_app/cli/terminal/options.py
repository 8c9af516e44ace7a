"""The flags of the commands, and a record of the flags of each command that has many."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

T = TypeVar("T")


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="PATH", envvar="INFER_CONFIG", help="The settings file.  [default: ./infer.toml]"
    ),
]
Date = Annotated[
    str, typer.Option("--date", "-d", metavar="DATE", help="The day: today, yesterday or a date such as 2026-11-20.")
]


def any_date(default: str) -> Any:
    """Return the option --date of a command that also works without a day; `default` says what it does then."""
    what = "The day: today, yesterday or a date such as 2026-11-20."
    return typer.Option("--date", "-d", metavar="DATE", help=f"{what}  [default: {default}]")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
MODEL_HELP = "Name of a model, which means its version in use, or name@id for one version."
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME[@ID]",
        help=f"{MODEL_HELP} May be repeated: models of one recipe share reading and decoding.  "
        "[default: [run] models, else all]",
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: [run] model, else all]"),
]
ModelOrVersion = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: all]"),
]
ModelsOrVersions = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP} May be repeated.  [default: all that ran]"),
]
ModelName = Annotated[str, typer.Argument(metavar="NAME[@ID]", help=MODEL_HELP)]
ModelToRemove = Annotated[
    str,
    typer.Argument(metavar="NAME[@ID]", help="Name of a model that has one version, or name@id for one of several."),
]
ModelToUse = Annotated[
    str,
    typer.Argument(
        metavar="NAME[@ID]", help="Name of a model, which means its newest version, or name@id for another one."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="full|half|int8",
        help="Precision of the model; half: bf16 on a CPU that computes it, fp16 or bf16 on a GPU.  "
        "[default: [run] precision, else full on a CPU and half on a GPU]",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Number of worker processes; 0: as many as were measured to be fastest here.  "
        "[default: [run] workers, else 0]",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success, for cron.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="text|json",
        help="Format of the log on standard error; json: one object a line.  [default: [log] format, else text]",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Run on a sample, write nothing, and forecast how long a run takes.")
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="PATH", help="Write what each process did when to this file, for Perfetto."),
]
Report = Annotated[bool, typer.Option("--report", help="Write the day's report at the end.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Take at most this many images.  [default: all]")
]
FinishBy = Annotated[
    str | None,
    typer.Option("--finish-by", metavar="HH:MM", help="Stop cleanly at this local time, with exit code 75."),
]
MaxDuration = Annotated[
    float | None,
    typer.Option("--max-duration", min=0, metavar="SECONDS", help="Stop cleanly after this time, with exit code 75."),
]
MaxRejected = Annotated[
    str | None,
    typer.Option(
        "--max-rejected",
        metavar="N|N%",
        help="Stop a day with exit code 3 above this number or share of rejected images; a share allows at least 10.  "
        "[default: [run] max_rejected, else 5%]",
    ),
]
Wait = Annotated[
    bool | None,
    typer.Option("--wait", help="Wait for another run that holds the day, instead of ending with exit code 13."),
]
Lookback = Annotated[
    int | None,
    typer.Option(
        "--lookback",
        min=0,
        metavar="N",
        help="Number of days before the day to check for late images.  [default: [run] lookback, else 3]",
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="auto|NAME",
        help="Variant of the model; auto: the fastest that is as exact as the source.  [default: [run] variant, "
        "else auto]",
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="auto|cpu|cuda|ray",
        help="What runs the model; auto: by the device; cuda: the GPU pipeline, which needs no GPU; ray: a cluster.  "
        "[default: [run] executor, else auto]",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="auto|HOST:PORT|local",
        help="The Ray cluster; auto: the one this machine is in; local: this machine alone.  "
        "[default: [ray] address, else local]",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda",
        help="Where the model runs; cuda: end with exit code 12 if no GPU variant can run.  "
        "[default: [run] device, else auto]",
    ),
]


Until = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="Last day of a range that begins with --date.")
]


@dataclass(frozen=True, kw_only=True)
class DaysOptions:
    """The options that `infer run` and `infer backfill` have in common. None: as in the settings."""

    model: Models = None
    limit: Limit = None
    finish_by: FinishBy = None
    max_duration: MaxDuration = None
    max_rejected: MaxRejected = None
    variant: Variant = None
    precision: Precision = None
    workers: Workers = None
    wait: Wait = None
    quiet: Quiet = False
    verbose: Verbose = False
    log_format: LogFormat = None
    as_json: Json = False
    config: Config = None

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that the options override, by section and key; None overrides nothing."""
        run = {
            "models": self.model or None,
            "max_rejected": self.max_rejected,
            "variant": self.variant,
            "precision": self.precision,
            "workers": self.workers,
            "wait": self.wait,
        }
        return {"run": run, "log": {"format": self.log_format}}


@dataclass(frozen=True, kw_only=True)
class RunOptions(DaysOptions):
    """The options of `infer run`."""

    date: Date = "yesterday"
    dry_run: DryRun = False
    lookback: Lookback = None
    executor: Executor = None
    ray_address: RayAddress = None
    device: Device = None
    trace: TraceFile = None
    report: Report = False

    def settings(self) -> dict[str, dict[str, Any]]:
        common = super().settings()
        run = {"lookback": self.lookback, "executor": self.executor, "device": self.device}
        return common | {"run": common["run"] | run, "ray": {"address": self.ray_address}}


@dataclass(frozen=True, kw_only=True)
class BackfillOptions(DaysOptions):
    """The options of `infer backfill`."""

    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first day.")]
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last day.")]

    def settings(self) -> dict[str, dict[str, Any]]:
        common = super().settings()
        return common | {"run": common["run"] | {"lookback": 0}}


def with_options(options: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Give a command the fields of the dataclass `options` as its flags, and pass it one instance.

    The fields of the class itself are listed before those that it inherits. A field `given` is no flag: it gets the
    names of the options that the user gave.
    """
    fields = dict(inspect.signature(options, eval_str=True).parameters)
    has_given = fields.pop("given", None) is not None
    flags = sorted(fields.values(), key=lambda field: field.name not in vars(options)["__annotations__"])
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    signature = inspect.Signature([*flags, context])

    def decorate(command: Callable[[T], None]) -> Callable[..., None]:
        @wraps(command)
        def call(context: typer.Context, **values: Any) -> None:
            if has_given:
                values["given"] = frozenset(name for name in values if _is_given(context, name))
            command(options(**values))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
