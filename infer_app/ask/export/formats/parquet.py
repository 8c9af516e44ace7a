"""Parquet: the tables of `tables.py` with types, vectors as lists of a fixed size of float32."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from infer_app.ask.export.exported_images import Export
from infer_app.ask.export.formats.tables import TYPES, Row, columns_of, read_rows
from infer_app.base.atomic_file import new_content
from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError
from infer_app.base.packages import install

Arrow: TypeAlias = Any  # a type or an array of pyarrow, which has no annotations
Column: TypeAlias = tuple[Any, ...]

WITH_VECTORS = (OutputKind.EMBEDDING, OutputKind.RAW)
GROUP_ROWS = 1 << 15  # in memory at a time, and a row group of the file
_GROUP_NUMBERS = 1 << 22  # of vectors in a row group, at most


def write_parquet(path: Path, export: Export, group_rows: int = GROUP_ROWS) -> None:
    """Write the table. Raises UsageError without pyarrow, or if vectors differ in their lengths."""
    pa, pq = _load_pyarrow()
    with new_content(path) as file:
        dim = _dim(export)
        schema = pa.schema([(name, _type(pa, name, dim)) for name in columns_of(export)])
        group_rows = min(group_rows, max(_GROUP_NUMBERS // dim, 1)) if dim else group_rows
        with pq.ParquetWriter(file, schema) as writer:
            for group in _groups(read_rows(export), group_rows):
                columns = zip(*group, strict=True)
                arrays = [_array(pa, column, field.type, dim) for column, field in zip(columns, schema, strict=True)]
                writer.write_batch(pa.record_batch(arrays, schema=schema))


def _load_pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise UsageError("Parquet needs pyarrow", install("parquet")) from None
    return pa, pq


def _dim(export: Export) -> int | None:
    """Return the length of the first vector, of kinds that have one; images without an object may be before it."""
    if export.model.kind not in WITH_VECTORS:
        return None
    at = columns_of(export).index("vector")
    return next((len(row[at]) for row in read_rows(export) if row[at] is not None), None)


def _type(pa: ModuleType, name: str, dim: int | None) -> Arrow:
    kind = TYPES[name.removeprefix("detected_")]
    if kind == "list_":
        return pa.list_(pa.float32()) if dim is None else pa.list_(pa.float32(), dim)
    if kind == "timestamp":
        return pa.timestamp("us", "UTC" if name == "created_at" else None)
    return getattr(pa, kind)()


def _groups(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while group := list(islice(rows, size)):
        yield group


def _array(pa: ModuleType, column: Column, type_: Arrow, dim: int | None) -> Arrow:
    if pa.types.is_fixed_size_list(type_):
        return _vectors(pa, column, type_, dim)
    if pa.types.is_string(type_):
        return pa.array([_text(value) for value in column], type_)
    if type_ == pa.timestamp("us"):
        return pa.array([time and datetime.fromisoformat(time) for time in column], type_)
    return pa.array(column, type_)


def _vectors(pa: ModuleType, column: Column, type_: Arrow, dim: int | None) -> Arrow:
    if {len(vector) for vector in column if vector is not None} - {dim}:
        raise UsageError("the vectors have several lengths", "name one version of the model by --model")
    if any(vector is None for vector in column):
        return pa.array([None if vector is None else vector.tolist() for vector in column], type_)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(column)), type=type_)


def _text(value: object) -> str | None:
    """Return a text that Parquet can hold."""
    text = None if value is None else str(value)
    return text if text is None or text.isascii() else text.encode("utf-8", "backslashreplace").decode()
