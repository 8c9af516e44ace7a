"""Tables on standard output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from infer_app.telemetry.printable import printable


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table whose cells are plain text: markup and control characters in them have no effect.

    A rich Text is printed with its style: callers make one of constants only, never of data.
    """
    table = Table(*(Column(heading, overflow="fold") for heading in headings), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row))
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no width of its own
    with console.capture() as captured:  # rich would end the program where the reader of a pipe has gone
        console.print(table)
    print(captured.get(), end="")
