"""What no test could do here, in a few lines at the end of the output."""

import importlib.util
import re
from collections import Counter

import pytest


def need(*packages: str) -> None:
    """Skip where one of them is not installed; none is imported, which for some takes seconds."""
    for package in packages:
        if not _is_installed(package):
            pytest.skip(_needs(package), allow_module_level=True)


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the one that it lies in
        return False


def _needs(package: str) -> str:
    return f"needs {package}, which `make test` installs"


def describe_skips(reasons: list[str]) -> list[str]:
    """Count the reasons that begin with `needs`, which say what to install; sum up all others."""
    importing = re.compile(r"could not import '([^']+)'.*", re.DOTALL)  # of pytest.importorskip
    told = [importing.sub(lambda found: _needs(found[1]), reason.removeprefix("Skipped: ")) for reason in reasons]
    needs = Counter(reason for reason in told if reason.startswith("needs "))
    lines = [f"{count} skipped: {reason}" for reason, count in needs.most_common()]
    if others := len(told) - needs.total():
        lines.append(f"{others} skipped: not for this database or machine (-rs lists them)")
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.getreports("skipped")
    for line in describe_skips([str(report.longrepr[2]) for report in skipped]):
        terminalreporter.write_line(line)
