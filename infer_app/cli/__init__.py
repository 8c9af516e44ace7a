"""The command line: parses, calls, prints and ends with an exit code."""

from __future__ import annotations

import signal
import sys

import typer

from infer_app.cli.terminal.failures import fail, heard
from infer_app.errors import UsageError


def main() -> None:
    """The `infer` command. Every failure becomes an exit code in this one place."""
    # Commands that must end cleanly handle it themselves. As the first process of a container there is no default.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names may be undecodable
    try:
        from infer_app.cli.app import app

        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except SystemExit as end:
        # typer ends so for a wrong flag, of which it has told on standard error; a command that answered ends by Exit.
        has_answered = isinstance(end.__context__, typer.Exit)
        if end.code == UsageError.exit_code and "--json" in sys.argv and not has_answered:
            fail(UsageError("wrong usage", "`infer COMMAND --help` lists the flags"), as_json=True)
        raise
    except Exception as error:  # the outermost door: what is not an InferError is a bug and says so
        sys.exit(fail(error, as_json="--json" in sys.argv))
    finally:
        for stream in (sys.stdout, sys.stderr):  # or the interpreter's own flush would decide the exit code
            with heard(stream):
                pass
