"""The readers of docs/how-to/export.md, and the programs that prove what it says of them."""

from dataclasses import dataclass
from pathlib import Path

from tests.networks.rows import ROOT, code_of, table_rows

PAGE = ROOT / "docs" / "how-to" / "export.md"
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Row:
    """A reader of the page: its package with a version, the name of its program, and when it was last tried."""

    package: str
    name: str
    date: str


def page_rows() -> list[Row]:
    """Return the rows of the table whose first column has a package with its version."""
    named = [((code_of(cells[0]) or [""])[0], cells[-1]) for cells in table_rows(PAGE.read_text())]
    return [Row(one, one.partition("==")[0].replace("-", "_"), date) for one, date in named if "==" in one]
