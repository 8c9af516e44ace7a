"""The options that several commands have."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

DAY = "The day: today, yesterday or a date such as 2026-11-20."
MIN_AGREEMENT = (
    "Share of the labels or objects that half precision and int8 must keep.  [default: 99% of labels, 97% of objects]"
)
MODEL_HELP = "Name of a model, which means its version in use, or name@id for one version."
SEVERAL = "May be repeated: models of one recipe share reading and decoding."


def _option(metavar: str | None, text: str, *flags: str, **more: Any) -> Any:
    return typer.Option(*flags, metavar=metavar, help=text, **more)


def _model(text: str) -> object:
    return _option("NAME[@ID]", text, "--model", "-m")


def any_date(default: str) -> object:
    """Return the option --date of a command that also works without a day; `default` says what it does then."""
    return _option("DATE", f"{DAY}  [default: {default}]", "--date", "-d")


CONFIG_HELP = "The settings file.  [default: ./infer.toml]"
Config = Annotated[Path | None, _option("PATH", CONFIG_HELP, "--config", "-c", envvar="INFER_CONFIG")]
Date = Annotated[str, _option("DATE", DAY, "--date", "-d")]
Until = Annotated[str | None, _option("DATE", "Last day of a range that begins with --date.")]
Json = Annotated[bool, _option(None, "Print one JSON object on standard output and nothing else.", "--json")]
Csv = Annotated[bool, _option(None, "Print CSV.", "--csv")]
Model = Annotated[str | None, _model(f"{MODEL_HELP}  [default: [run] model, else all]")]
Models = Annotated[list[str] | None, _model(f"{MODEL_HELP} {SEVERAL}  [default: [run] models, else all]")]
ModelOrVersion = Annotated[str | None, _model(f"{MODEL_HELP}  [default: all]")]
ModelsOrVersions = Annotated[list[str] | None, _model(f"{MODEL_HELP} May be repeated.  [default: all that ran]")]
ModelName = Annotated[str, typer.Argument(metavar="NAME[@ID]", help=MODEL_HELP)]
Limit = Annotated[int | None, _option("N", "Take at most this many images.  [default: all]", min=1)]
Workers = Annotated[
    int | None,
    _option(
        "N",
        "Number of worker processes; 0: one for each core that fits into memory.  [default: [run] workers, else 0]",
        min=0,
    ),
]
LogFormat = Annotated[
    str | None,
    _option(
        "text|json",
        "Format of the log on standard error; json: one object a line.  [default: [log] format, else text]",
        "--log-format",
    ),
]
Executor = Annotated[
    str | None,
    _option(
        "auto|cpu|cuda|ray",
        "What runs the model; auto: by the device; cuda: the GPU pipeline, which needs torch and no GPU; ray: a "
        "cluster.  [default: [run] executor, else auto]",
    ),
]
RayAddress = Annotated[
    str | None,
    _option(
        "auto|HOST:PORT|local",
        "The Ray cluster; auto: the one this machine is in; local: this machine alone.  "
        "[default: [ray] address, else local]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class WithConfig:
    """The last option of every command of a project."""

    config: Config = None


@dataclass(frozen=True, kw_only=True)
class WithJson:
    """The last options of a command whose results programs may read."""

    as_json: Json = False
    config: Config = None
