"""How a failure is told: message and hint on standard error, one object on standard output under --json."""

from __future__ import annotations

import json
import os
import sys
import traceback

from infer_app.errors import EXIT_BUG, InferError


def printable(text: str) -> str:
    """Names may hold terminal escapes and undecodable bytes: shown, not obeyed."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def fail(error: Exception, as_json: bool) -> int:
    """Tells of the failure and returns the exit code."""
    if isinstance(error, BrokenPipeError):  # `infer predictions | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return 0
    known = isinstance(error, InferError)
    message = str(error) if known else f"a bug: {type(error).__name__}: {error}"
    hint = error.hint if isinstance(error, InferError) else "please report it with the lines above"
    exit_code = error.exit_code if isinstance(error, InferError) else EXIT_BUG
    if not known:
        traceback.print_exception(error, file=sys.stderr)
    print(f"infer: {printable(message)}", file=sys.stderr)
    if hint:
        print(f"  hint: {printable(hint)}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message, "hint": hint, "exit_code": exit_code}))
    return exit_code
