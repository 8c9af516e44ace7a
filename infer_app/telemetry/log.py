"""Logging to standard error, as text or as JSON lines; standard output is for results.

Modules log by `logging.getLogger(__name__)` and pass searchable values as `extra`; values that are `bound` are added to
every line. structlog only renders, so that the lines of libraries look the same.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TextIO

from structlog import contextvars, dev, processors, stdlib
from structlog.typing import EventDict, Processor

from infer_app.telemetry.closed_streams import discard_pending_output
from infer_app.telemetry.printable import one_line, printable

JSON = "json"
FIRST_JSON_KEYS = ("timestamp", "level", "event", "date", "model", "model_id", "run_id", "chunk")
FORMATTER_ATTRIBUTES = ("message", "asctime")  # set on a record by any formatter
TEXT_KEYS = ("timestamp", "level", "event", "chunk", "exc_info")  # a run's first and last line name the date
SHORT_ID = 8  # characters of a model's id in a line of text


class StderrHandler(logging.StreamHandler[TextIO]):
    """The only log handler of this program; `style` is text or json."""

    def __init__(self, style: str) -> None:
        super().__init__(sys.stderr)
        self.style = style
        self.setFormatter(_formatter(style, is_terminal=self.stream.isatty()))

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


def bound(**context: str) -> AbstractContextManager[None]:
    """Add these keys to every line logged within the `with` block."""
    return contextvars.bound_contextvars(**context)


def bind(**context: str) -> None:
    """Add these keys to every line logged from now on."""
    contextvars.bind_contextvars(**context)


def bind_models(models: Iterable[tuple[str, str]]) -> None:
    """Add the names and ids of the models to every line logged from now on; lines of text show NAME@ID, cut short."""
    bind(**names_and_ids(models))


def names_and_ids(models: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the keys of a log line that concerns these models."""
    known = list(models)
    return {"model": ", ".join(name for name, _ in known), "model_id": ", ".join(model_id for _, model_id in known)}


def _own_handlers() -> list[StderrHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, StderrHandler)]


def _formatter(style: str, is_terminal: bool) -> logging.Formatter:
    is_json = style == JSON
    time = (
        processors.TimeStamper(fmt="iso", utc=True) if is_json else processors.TimeStamper("%Y-%m-%d %H:%M:%S", False)
    )
    gather: list[Processor] = [_add_extra, contextvars.merge_contextvars, stdlib.add_log_level, time]
    # Plain tracebacks: tracebacks with the values of variables would show passwords.
    if is_json:
        gather.append(stdlib.add_logger_name)
        render: list[Processor] = [_first_keys_first, processors.format_exc_info, processors.JSONRenderer(default=str)]
    else:
        console = dev.ConsoleRenderer(colors=is_terminal, pad_event_to=0, pad_level=False, sort_keys=False)
        render = [_only_text_keys, processors.format_exc_info, _escape, console]
    return stdlib.ProcessorFormatter(
        foreign_pre_chain=gather, processors=[stdlib.ProcessorFormatter.remove_processors_meta, *render]
    )


def _add_extra(_: object, __: str, line: EventDict) -> EventDict:
    """Add what was passed as `extra`, but not what a record factory or another handler's formatter adds."""
    not_extra = {*logging.makeLogRecord({}).__dict__, *FORMATTER_ATTRIBUTES}
    return {**line, **{name: value for name, value in line["_record"].__dict__.items() if name not in not_extra}}


def _only_text_keys(_: object, __: str, line: EventDict) -> EventDict:
    ids = line.get("model_id", "")
    models = zip(line.get("model", "").split(", "), ids.split(", "), strict=False)
    named = {"model": ", ".join(f"{name}@{model_id[:SHORT_ID]}" for name, model_id in models)} if ids else {}
    return {key: line[key] for key in TEXT_KEYS if key in line} | named


def _first_keys_first(_: object, __: str, line: EventDict) -> EventDict:
    return {**{key: line[key] for key in FIRST_JSON_KEYS if key in line}, **line}


def _escape(_: object, __: str, line: EventDict) -> EventDict:
    traceback = {"exception": printable(line["exception"])} if "exception" in line else {}
    return {key: one_line(value) if isinstance(value, str) else value for key, value in line.items()} | traceback
