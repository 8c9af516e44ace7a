"""Tables, and rows as CSV and JSON, on standard output."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from infer_app.base.locations import as_location
from infer_app.base.locations import shown as shown_location
from infer_app.base.printing import csv_line, printable

LONGEST_WORD = 40  # characters; what is longer is a path or a URL, which may be broken


def show_table(headings: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table whose cells are plain text: markup and control characters in them have no effect.

    No name, date or number is split between lines: where they do not fit, each row is a block of lines instead.

    A rich Text is printed with its style: callers make one of constants only, never of data.
    """
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no width of its own
    cells = [[cell if isinstance(cell, Text) else Text(printable(str(cell))) for cell in row] for row in rows]
    texts = [list(map(str, column)) for column in zip(headings, *cells, strict=True)]
    wanted = [max(map(cell_len, column)) for column in texts]
    widths = [min(LONGEST_WORD, max(map(cell_len, ["", *" ".join(column).split()]))) for column in texts]
    is_compact = console.is_terminal and sum(wanted) + 3 * len(wanted) >= console.width
    left = console.width - sum(widths) - (len(widths) - 1 if is_compact else 3 * len(widths) + 1)
    if left < 0 and len(headings) > 2:
        lines = [line for row in cells for line in (("", ""), *zip(headings, row, strict=True))]
        show_table(("", ""), lines[1:], title)
        return
    by_need = sorted(range(len(widths)), key=lambda column: wanted[column] - widths[column])
    for place, column in enumerate(by_need):
        more = min(wanted[column] - widths[column], max(left, 0) // (len(widths) - place))
        widths[column], left = widths[column] + more, left - more
    columns = [Column(name, width=width, overflow="fold") for name, width in zip(headings, widths, strict=True)]
    table = Table(*columns, title=title, title_justify="left", show_header=any(headings))
    if is_compact:
        table.box, table.padding, table.show_edge = box.SIMPLE, 0, False
    for row in cells:
        table.add_row(*row)
    with console.capture() as captured:  # rich would end the program where the reader of a pipe has gone
        console.print(table)
    print(captured.get(), end="")


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON and CSV have it: times with their zone, dates as text, no secret in a location."""
    return {key: _plain(key, value) for key, value in row.items()}


def print_csv(rows: Iterable[Mapping[str, object]], fields: Sequence[str]) -> None:
    sys.stdout.write(csv_line(fields))
    sys.stdout.writelines(csv_line(map(row.get, fields)) for row in rows)


def print_json_list(head: Mapping[str, object], key: str, rows: Iterator[Mapping[str, object]]) -> None:
    """Print one object, row by row: a day may have more rows than fit in memory."""
    lines = (json.dumps(row) for row in rows)
    first = next(lines, "")  # before anything is written: an error here prints its own JSON object
    sys.stdout.write(f'{json.dumps(head)[:-1]}, "{key}": [{first}')
    sys.stdout.writelines(f",\n{line}" for line in lines)
    sys.stdout.write("]}\n")


def _plain(key: str, value: object) -> object:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC).isoformat()  # our tables hold UTC without a zone
    if isinstance(value, date):
        return value.isoformat()
    return shown_location(as_location(value)) if key == "location" and value else value
