"""Reads a table of the user's, a CSV file whose lines are facts."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from infer_app.base.errors import UsageError, os_errors_as

Line = TypeVar("Line", bound=BaseModel)


def read_lines(path: Path, kind: type[Line]) -> Iterator[tuple[str, Line]]:
    """Yield where each line of a CSV file is and what it says; all columns but the first may be missing or empty.

    Columns are separated by semicolons if the header's are, as some spreadsheets write them. Raises UsageError for what
    can't be read, without the header, and for a value that a field refuses, with the field's description as a hint.
    """
    columns = [field.alias or name for name, field in kind.model_fields.items()]
    hint = f"columns: {', '.join(columns)}"
    try:
        with (
            os_errors_as(UsageError, f"{path} can't be read", f"name a CSV file; {hint}"),
            path.open(encoding="utf-8-sig", newline="") as file,
        ):
            separator = ";" if ";" in file.readline() else ","
            file.seek(0)
            table = csv.DictReader(file, restkey="more values than columns", delimiter=separator)
            if columns[0] not in (table.fieldnames or ()):
                raise UsageError(f"{path}: its first line names no column {columns[0]}", hint)
            for row in table:
                where = f"{path}, line {table.line_num}"
                if not (given := _given(row)):
                    continue
                if others := [name for name in given if name not in columns]:
                    raise UsageError(f"{where}: no such column: {others[0] or '(without a name)'}", hint)
                yield where, _line(kind, given, where, hint)
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} can't be read: {error}", "a CSV file in UTF-8 is needed") from None


def _given(row: Mapping[str, str | list[str] | None]) -> dict[str, str]:
    """Return the values of a line without the empty columns and lines that a spreadsheet adds."""
    texts = {name: "".join(text or ()).strip() for name, text in row.items()}
    return {name: text for name, text in texts.items() if text}


def _line(kind: type[Line], given: Mapping[str, str], where: str, hint: str) -> Line:
    if any("\0" in text for text in given.values()):
        raise UsageError(f"{where}: it has a NUL character", "save it as UTF-8, not as UTF-16")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = "".join(map(str, first["loc"][:1]))
        about = {field.alias or own: field.description for own, field in kind.model_fields.items()}
        reason = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {name}{': ' if name else ''}{reason}", about.get(name) or hint) from None
