"""The command line: `main` runs a command and turns every failure into an exit code."""

import gc
import os
import signal
import sys
import time
from threading import Thread, main_thread
from traceback import walk_stack
from typing import Any


def main() -> None:
    """Run the `infer` command; every failure becomes an exit code here."""
    _name_files_in_utf8()
    # Commands that must end cleanly set their own handler. The first process of a container has no default one.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.unraisablehook = _signal_again
    gc.disable()  # until the command's modules are imported, of which a tenth would be spent looking for garbage
    import typer  # here, because each worker process imports this module

    from infer_app.base.errors import UsageError
    from infer_app.base.printing import remember_config
    from infer_app.cli.terminal.failures import fail, tolerate_closed_stream

    remember_config(sys.argv[1:])
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: PTH123, SIM115 - None if it was closed, as by `>&-`
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names may be undecodable
    try:
        if sys.argv[1:2] == ["run"]:  # the other commands' options take a moment to load
            from infer_app.cli.commands import run_commands  # noqa: F401
            from infer_app.cli.terminal.groups import app
        else:
            app = load_app()
        try:
            app()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # click ends with 1 where a reader has gone
            sys.exit(fail(end.__context__, as_json="--json" in sys.argv))
        # typer exits so for a wrong flag, after a message on standard error; a command that has printed raises Exit.
        has_printed = isinstance(end.__context__, typer.Exit)
        if end.code == UsageError.exit_code and "--json" in sys.argv and not has_printed:
            fail(UsageError("wrong usage", "`infer COMMAND --help` lists the options"), as_json=True)
        raise
    except Exception as error:  # an error that is no InferError is reported as a bug
        sys.exit(fail(error, as_json="--json" in sys.argv))
    finally:
        for stream in (sys.stdout, sys.stderr):  # a failing flush at the interpreter's exit would change the exit code
            with tolerate_closed_stream(stream):
                pass
        gc.freeze()  # else the interpreter would look for garbage in all that was imported, 0.15 s of each command


def load_app() -> Any:
    """Return the `infer` command, a Typer, with all its commands."""
    from infer_app.cli.commands import build_command, look_commands, maintain_commands, model_commands, run_commands  # noqa: F401
    from infer_app.cli.terminal.groups import GROUPS, app

    app.registered_commands.sort(key=lambda one: GROUPS.index(one.rich_help_panel or ""))
    return app


def _name_files_in_utf8() -> None:
    """Start the program again where a locale names files in another encoding: a photo would have another location."""
    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _signal_again(lost: Any) -> None:
    """Repeat a signal whose exception Python has dropped, as in a callback of the importer; show other exceptions."""
    if number := {SystemExit: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}.get(lost.exc_type):
        Thread(target=_send_later, args=(number,), daemon=True).start()
    else:
        sys.__unraisablehook__(lost)


def _send_later(number: int) -> None:
    """Send a signal to this process once its main thread has left the hook, where it would be dropped again."""
    main = main_thread().ident or 0
    while any(frame.f_code is _signal_again.__code__ for frame, _ in walk_stack(sys._current_frames()[main])):
        time.sleep(0.001)
    os.kill(os.getpid(), number)
