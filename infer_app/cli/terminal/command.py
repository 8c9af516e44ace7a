"""A command is a dataclass of its options: its docstring is the help, and a function that is named does the work.

Below are the options that several commands have.
"""

import gc
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer
from typer import Typer

T = TypeVar("T")
REQUIRED = MISSING


def option(metavar: str | None, text: str, *flags: str, default: Any = None, **more: Any) -> Any:
    """Return a field of a command that is an option; its flag is the field's name unless `flags` are given."""
    return field(default=default, metadata={"typer": _option(metavar, text, *flags, **more)})


def flag(name: str, text: str) -> Any:
    """Return a field of a command that is true if this flag is given."""
    return option(None, text, name, default=False)


def argument(metavar: str, text: str, default: Any = REQUIRED, **more: Any) -> Any:
    """Return a field of a command that is given by its position."""
    return field(default=default, metadata={"typer": typer.Argument(metavar=metavar, help=text, **more)})


@dataclass_transform(kw_only_default=True, frozen_default=True)
def command(
    group: Typer, name: str, function: str, *, as_record: bool = False, starts_workers: bool = False, **settings: Any
) -> Callable[[type[T]], type[T]]:
    """Make a class of options the command `name` of a group, done by `function`, such as `look.status:show_status`.

    The function's module, below infer_app.cli, is imported when the command is called: `infer --help` loads neither
    torch nor a database. It gets each option by name or, with `as_record`, the instance; an exit code may be returned.
    With `starts_workers`, the process that forks workers loads what they need while this one loads the database.
    The class's own options are listed before those that it inherits.
    """

    def register(options: type[T]) -> type[T]:
        record = dataclass(frozen=True, kw_only=True)(options)

        def call(context: typer.Context, **values: object) -> None:
            if starts_workers:
                import_module("infer_app.predict.workers.fork_server").start_early()
            given = {name: _given_options(context) for name in _unlisted(record)}
            module, _, attribute = function.partition(":")
            run = getattr(import_module(f"infer_app.cli.{module}"), attribute)
            gc.freeze()  # what was imported is no garbage
            gc.enable()
            exit_code = run(record(**values, **given)) if as_record else run(**values)
            if exit_code is not None:
                raise typer.Exit(exit_code)

        call.__signature__ = _signature(record)  # type: ignore[attr-defined]
        call.__doc__ = options.__doc__
        group.command(name, **settings)(call)
        return record

    return register


def _signature(record: Any) -> inspect.Signature:
    hints = get_type_hints(record, include_extras=True)
    listed = [one for one in fields(record) if one.name not in _unlisted(record)]
    parameters = [inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    names = [inspect.get_annotations(base).keys() for base in record.__mro__]
    for one in sorted(listed, key=lambda one: [one.name in own for own in names].index(True)):
        hint = hints[one.name]
        annotation = Annotated[hint, one.metadata["typer"]] if one.metadata else hint
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        parameters.append(
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return inspect.Signature(parameters)


def _unlisted(record: Any) -> list[str]:
    """Return the field `given` of a class that has one beside its options: it gets the names of those given."""
    return [one.name for one in fields(record) if one.name == "given" and not one.metadata]


def _given_options(context: typer.Context) -> frozenset[str]:
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return frozenset(name for name, one in sources.items() if one and one.name != "DEFAULT")


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
Camera = Annotated[str | None, _option("NAME", "Only images of this camera.")]
Json = Annotated[bool, _option(None, "Print one JSON object on standard output and nothing else.", "--json")]
Csv = Annotated[bool, _option(None, "Print CSV.", "--csv")]
Model = Annotated[str | None, _model(f"{MODEL_HELP}  [default: [run] model, else all]")]
Models = Annotated[list[str] | None, _model(f"{MODEL_HELP} {SEVERAL}  [default: [run] models, else all]")]
ModelOrVersion = Annotated[str | None, _model(f"{MODEL_HELP}  [default: all]")]
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
class WithJson(WithConfig):
    """The last options of a command whose results programs may read."""

    as_json: Json = False
