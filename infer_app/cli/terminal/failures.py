"""How a failure is printed: message and hint on standard error, with --json one object on standard output."""

import json
import logging
import select
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from infer_app.base.errors import EXIT_BUG, EXIT_OK, as_known
from infer_app.base.printing import discard_pending_output, one_line, with_config

log = logging.getLogger(__name__)


def fail(error: Exception, as_json: bool) -> int:
    """Print or log the failure and return the exit code. What the machine did to the program is no bug of it."""
    if isinstance(error, BrokenPipeError) and _has_no_reader(sys.stdout):  # `infer list | head`
        discard_pending_output(sys.stdout)
        return EXIT_OK
    known = as_known(error)
    message = known.message if known else f"a bug: {type(error).__name__}: {error}"
    hint = with_config(known.hint) if known else "please report it with the lines above"
    exit_code = known.exit_code if known else EXIT_BUG
    if _logs_json():
        figures = {"hint": hint, "exit_code": exit_code}
        logging.getLogger(__name__).error("%s", message, extra=figures, exc_info=None if known else error)
    else:
        with tolerate_closed_stream(sys.stderr):
            _print_failure(message, hint, None if known else error)
    if as_json:
        with tolerate_closed_stream(sys.stdout):
            print(json.dumps({"error": message, "hint": hint, "exit_code": exit_code}))
    return exit_code


@contextmanager
def tolerate_closed_stream(stream: TextIO) -> Iterator[None]:
    """Drop output to a closed pipe or a full disk; the exit code is not changed."""
    try:
        yield
        stream.flush()
    except (OSError, MemoryError, RecursionError) as error:
        with suppress(OSError):  # no file may be left to open
            discard_pending_output(stream)
        if stream is not sys.stderr:  # where the log goes
            log.warning("output was lost: %s", error)


def _has_no_reader(stream: TextIO) -> bool:
    """Return whether the other end of the pipe that a stream writes to was closed."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _print_failure(message: str, hint: str, bug: Exception | None) -> None:
    if bug:
        traceback.print_exception(bug, file=sys.stderr)
    print(f"infer: {one_line(message)}", file=sys.stderr)
    if hint:
        print(f"  hint: {one_line(hint)}", file=sys.stderr)


def _logs_json() -> bool:
    """Return whether the log is JSON; it is not if the logging module was never loaded."""
    log = sys.modules.get("infer_app.base.telemetry.log")
    return log is not None and bool(log.logs_json())
