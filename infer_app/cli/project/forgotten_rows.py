"""Rows that are about to be deleted as JSON lines, one for each row: its table and all its columns."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from infer_app.atomic_file import new_content
from infer_app.database.figures.similarity import vector_of
from infer_app.errors import UsageError


def write_forgotten(path: Path, rows: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Write a new file, complete and on its disk at the end. Raises UsageError where it exists or can't be written."""
    if path.exists():
        raise UsageError(f"--to {path} exists, nothing was deleted", "name a new file")
    try:
        with new_content(path) as file:
            file.writelines(_line(table, row) for table, row in rows)
    except OSError as error:
        found = f"--to {path}: {error.strerror or error}; nothing was deleted"
        raise UsageError(found, "is there such a folder, with space left?") from None


def _line(table: str, row: dict[str, Any]) -> bytes:
    if row.get("vector") is not None:
        row["vector"] = [float(number) for number in vector_of(row["vector"], row["vector_dtype"])]
    return json.dumps({"table": table} | row, default=str).encode() + b"\n"
