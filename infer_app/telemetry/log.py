"""Log lines go to standard error, for people or as JSON lines: standard output is for results.

Modules log by `logging.getLogger(__name__)`, with figures to search by as `extra`; what is `bound` goes with every
line. structlog only renders, so that lines of libraries look the same.
"""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager
from typing import Any

from structlog import contextvars, dev, processors, stdlib
from structlog.typing import EventDict, Processor

from infer_app.telemetry.closed_streams import forget
from infer_app.telemetry.printable import one_line, printable

JSON = "json"
FIRST = ("timestamp", "level", "event", "date", "model", "run_id", "chunk")  # of a JSON line's keys
OF_FORMATTERS = ("message", "asctime")  # attributes that any formatter leaves on a record
SHOWN = ("timestamp", "level", "event", "chunk", "exc_info")  # to people, whose first and last line name the rest


class StderrHandler(logging.StreamHandler[Any]):
    """The one handler of this program; `style` is text or json."""

    def __init__(self, style: str) -> None:
        super().__init__(sys.stderr)
        self.style = style
        self.setFormatter(_formatter(style, is_terminal=self.stream.isatty()))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name in logging
        if isinstance(sys.exc_info()[1], OSError):
            forget(self.stream)
        else:
            super().handleError(record)


def log_to_stderr(style: str = "text", quiet: bool = False, verbose: bool = False) -> None:
    """Called again it replaces what it set before."""
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    root = logging.getLogger()
    for handler in _ours():
        root.removeHandler(handler)
    root.addHandler(StderrHandler(style))
    logging.getLogger("infer_app").setLevel(level)
    logging.captureWarnings(True)  # Python's own would stand between JSON lines


def logs_json() -> bool:
    return any(handler.style == JSON for handler in _ours())


def bound(**context: str) -> AbstractContextManager[None]:
    """Within it every line has these keys."""
    return contextvars.bound_contextvars(**context)


def bind(**context: str) -> None:
    """Every line has these keys from now on."""
    contextvars.bind_contextvars(**context)


def _ours() -> list[StderrHandler]:
    return [handler for handler in logging.getLogger().handlers if isinstance(handler, StderrHandler)]


def _formatter(style: str, is_terminal: bool) -> logging.Formatter:
    is_json = style == JSON
    time = (
        processors.TimeStamper(fmt="iso", utc=True) if is_json else processors.TimeStamper("%Y-%m-%d %H:%M:%S", False)
    )
    gather: list[Processor] = [_add_extra, contextvars.merge_contextvars, stdlib.add_log_level, time]
    # Plain tracebacks: those with the values of variables would show passwords.
    if is_json:
        gather.append(stdlib.add_logger_name)
        render: list[Processor] = [_in_order, processors.format_exc_info, processors.JSONRenderer(default=str)]
    else:
        console = dev.ConsoleRenderer(colors=is_terminal, pad_event_to=0, pad_level=False, sort_keys=False)
        render = [_for_people, processors.format_exc_info, _escaped, console]
    return stdlib.ProcessorFormatter(
        foreign_pre_chain=gather, processors=[stdlib.ProcessorFormatter.remove_processors_meta, *render]
    )


def _add_extra(_: Any, __: str, line: EventDict) -> EventDict:
    """Add what was passed as `extra`, and not what a record factory or another handler's formatter adds."""
    not_given = {*logging.makeLogRecord({}).__dict__, *OF_FORMATTERS}
    return {**line, **{name: value for name, value in line["_record"].__dict__.items() if name not in not_given}}


def _for_people(_: Any, __: str, line: EventDict) -> EventDict:
    return {key: line[key] for key in SHOWN if key in line}


def _in_order(_: Any, __: str, line: EventDict) -> EventDict:
    return {**{key: line[key] for key in FIRST if key in line}, **line}


def _escaped(_: object, __: str, line: EventDict) -> EventDict:
    traceback = {"exception": printable(line["exception"])} if "exception" in line else {}
    return {key: one_line(value) if isinstance(value, str) else value for key, value in line.items()} | traceback
