"""Logging to standard error, as text or as JSON lines; standard output is for results.

Modules log by `logging.getLogger(__name__)` and pass searchable values as `extra`; values that are `bound` are added to
every line.
"""

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TextIO

from infer_app.base.printing import discard_pending_output, one_line, printable

JSON = "json"
FIRST_JSON_KEYS = ("timestamp", "level", "event", "date", "model", "model_id", "run_id", "chunk")
NOT_EXTRA = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}  # set on a record by any formatter
SHORT_ID = 8  # characters of a model's id in a line of text
COLOURS = {"ERROR": "\x1b[31m", "CRITICAL": "\x1b[31m", "WARNING": "\x1b[33m"}  # of a level, on a terminal
RESET = "\x1b[0m"
_bound: ContextVar[Mapping[str, object]] = ContextVar("bound", default=MappingProxyType({}))


class StderrHandler(logging.StreamHandler[TextIO]):
    """The only log handler of this program; `style` is text or json."""

    def __init__(self, style: str) -> None:
        super().__init__(sys.stderr)
        self.style = style
        self.setFormatter(JsonFormatter() if style == JSON else TextFormatter(has_colours=self.stream.isatty()))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        if isinstance(sys.exc_info()[1], OSError):
            discard_pending_output(self.stream)
        else:
            super().handleError(record)


def log_to_stderr(style: str = "text", quiet: bool = False, verbose: bool = False) -> None:
    """Set up logging; replace the handler of an earlier call."""
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    root = logging.getLogger()
    for handler in _own_handlers():
        root.removeHandler(handler)
    root.addHandler(StderrHandler(style))
    logging.getLogger("infer_app").setLevel(level)
    logging.captureWarnings(True)  # Python would print them as text between JSON lines


def logs_json() -> bool:
    return any(handler.style == JSON for handler in _own_handlers())


@contextmanager
def bound(**context: object) -> Iterator[None]:
    """Add these keys to every line logged within the `with` block."""
    before = _bound.get()
    bind(**context)
    try:
        yield
    finally:
        now = {key: value for key, value in _bound.get().items() if key not in context}
        _bound.set(now | {key: before[key] for key in context if key in before})


def bind(**context: object) -> None:
    """Add these keys to every line logged from now on."""
    _bound.set({**_bound.get(), **context})


def unbind_all() -> None:
    """Add no more keys."""
    _bound.set({})


def bind_models(models: Iterable[tuple[str, str]]) -> None:
    """Add the names and ids of the models to every line logged from now on; lines of text show NAME@ID, cut short."""
    bind(**names_and_ids(models))


def names_and_ids(models: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the keys of a log line that concerns these models."""
    known = list(models)
    return {"model": ", ".join(name for name, _ in known), "model_id": ", ".join(model_id for _, model_id in known)}


def _own_handlers() -> list[StderrHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, StderrHandler)]


class JsonFormatter(logging.Formatter):
    """A record as a JSON object on one line, with all that is bound or passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        timestamp = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        line = _context_of(record) | {
            "timestamp": timestamp,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({**{key: line[key] for key in FIRST_JSON_KEYS if key in line}, **line}, default=str)


class TextFormatter(logging.Formatter):
    """A record for people: of what is bound, only the models and the chunk; a run's first and last line name the date.

    No name of a file ends the line or reaches the terminal as a command.
    """

    def __init__(self, *, has_colours: bool) -> None:
        super().__init__()
        self._colours = COLOURS if has_colours else {}

    def format(self, record: logging.LogRecord) -> str:
        context = _context_of(record)
        if ids := str(context.get("model_id", "")):
            models = zip(str(context.get("model", "")).split(", "), ids.split(", "), strict=False)
            context["model"] = ", ".join(f"{name}@{model_id[:SHORT_ID]}" for name, model_id in models)
        shown = {key: context[key] for key in ("chunk", "model") if key in context and (ids or key != "model")}
        time = datetime.fromtimestamp(record.created).strftime("%Y-%m-%d %H:%M:%S")
        colour = self._colours.get(record.levelname, "")
        level = f"{colour}[{record.levelname.lower()}]{RESET if colour else ''}"
        line = " ".join([time, level, one_line(record.getMessage()), *map(_pair, shown.items())])
        return f"{line}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else line


def _context_of(record: logging.LogRecord) -> dict[str, object]:
    """Return what is bound, and what was passed as `extra`."""
    not_extra = NOT_EXTRA | logging.makeLogRecord({}).__dict__.keys()  # with what a record factory adds
    return {**_bound.get(), **{name: value for name, value in record.__dict__.items() if name not in not_extra}}


def _pair(item: tuple[str, object]) -> str:
    key, value = item[0], one_line(str(item[1]))
    return f"{key}={value!r}" if " " in value else f"{key}={value}"
