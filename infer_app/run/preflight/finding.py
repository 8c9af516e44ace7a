"""A finding of a check of what a run needs."""

from dataclasses import dataclass

from infer_app.base.errors import EXIT_OK


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; for a failure with the fix and the exit code a run would end with."""

    check: str
    found: str
    fix: str = ""
    exit_code: int = EXIT_OK
