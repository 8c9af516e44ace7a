"""The networks of docs/how-to/networks.md, the programs that prove them, and the figures that were found."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "networks.md"
RESULTS = ROOT / "benchmarks" / "results" / "networks.md"
PROGRAMS = Path(__file__).parent / "programs"
MODEL_FILE = re.compile(r"\]\(\.\./networks/(\w+)\.toml\)")


@dataclass(frozen=True)
class Row:
    """A network of the page: the name of its model file and of its program, and what the page says of it."""

    name: str
    packages: tuple[str, ...]  # with their versions
    file: str  # the network: in the folder of installed packages, or what the program's `prepare` makes
    figure: str


def page_rows() -> list[Row]:
    """Return the rows that have a model file: network, packages, file, figure."""
    rows = ((MODEL_FILE.search(cells[0]), cells) for cells in table_rows(PAGE.read_text()))
    return [Row(found[1], tuple(code_of(cells[1])), code_of(cells[2])[0], cells[3]) for found, cells in rows if found]


def result_lines() -> dict[str, str]:
    """Return the line of each network in the page of results."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {line.split()[1]: line for line in lines if re.match(r"\| \w+ \| \d", line)}


def result_figures() -> dict[str, str]:
    """Return what the page has of each network: what is the same, and when that was found."""
    (_, *rows) = table_rows(RESULTS.read_text())
    return {cells[0]: f"{cells[2]}, {cells[5]}" for cells in rows}


def table_rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def code_of(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
