"""A command is a dataclass of its options: its docstring is the help, and a function that is named does the work."""

import gc
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer

from infer_app.cli.terminal.help import App

T = TypeVar("T")
REQUIRED = MISSING


def option(metavar: str | None, text: str, *flags: str, default: Any = None, **more: Any) -> Any:
    """Return a field of a command that is an option; its flag is the field's name unless `flags` are given."""
    return field(default=default, metadata={"typer": typer.Option(*flags, metavar=metavar, help=text, **more)})


def flag(name: str, text: str) -> Any:
    """Return a field of a command that is true if this flag is given."""
    return option(None, text, name, default=False)


def argument(metavar: str, text: str, default: Any = REQUIRED) -> Any:
    """Return a field of a command that is given by its position."""
    return field(default=default, metadata={"typer": typer.Argument(metavar=metavar, help=text)})


@dataclass_transform(kw_only_default=True, frozen_default=True)
def command(
    group: App, name: str, function: str, *, as_record: bool = False, starts_workers: bool = False, **settings: object
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
    return frozenset(name for name, one in sources.items() if one and one.name not in ("DEFAULT", "DEFAULT_MAP"))
