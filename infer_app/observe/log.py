"""Log lines go to standard error: standard output is for results."""

from __future__ import annotations

import logging
import sys


def log_to_stderr(quiet: bool = False, verbose: bool = False) -> None:
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("infer_app").setLevel(level)
