"""How long an upgrade from layout 1 takes, and how much space: its first part is copied into temporary tables."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Index, MetaData, Table, UniqueConstraint, func, select, table

from infer_app.tables.engine.connect import Database, backend_of
from infer_app.tables.results.migrate import find_version, is_interrupted
from infer_app.tables.results.migrations.fill_pictures import Filling
from infer_app.tables.results.migrations.to_pictures import FORMER, NEW
from infer_app.tables.results.schema import LAYOUTS, database_id

_WITH_CHECKS = 2.0  # what the comparison takes, the checks of keys and the commit, in times of the copying


@dataclass(frozen=True, slots=True)
class Estimate:
    """The work of an upgrade; the numbers are 0 where no tables are replaced."""

    before: str | None
    rows: dict[str, int]
    seconds: float = 0.0
    num_bytes: int = 0
    num_measured: int = 0  # results that were copied


def estimate_upgrade(database: Database) -> Estimate:
    """Return what an upgrade would do; nothing is changed. Raises SchemaOutdated as `upgrade` does."""
    if database.file is not None and not database.file.exists():
        return Estimate(None, {})
    with database.read() as connection:
        before = find_version(database, connection)
        if before is None or LAYOUTS[before] > 1 or is_interrupted(connection):
            return Estimate(before, {})
        counted = {name: select(func.count()).select_from(table(name)) for name in FORMER if name != database_id.name}
        rows = {name: int(connection.scalar(one) or 0) for name, one in counted.items()}
        num_bytes = backend_of(connection).space_for_copy(connection, FORMER)
        started = time.monotonic()
        num_measured = _copy_part(connection)
        seconds = _WITH_CHECKS * (time.monotonic() - started)
        num_results = rows["infer_predictions"] + rows["infer_rejections"]
        return Estimate(before, rows, seconds * num_results / max(1, num_measured), num_bytes, num_measured)


def _copy_part(connection: Connection) -> int:
    """Copy some results into temporary tables, and return how many they were."""
    temporary = MetaData()
    new = {name: _temporary(one, temporary) for name, one in NEW.items()}
    temporary.create_all(connection, checkfirst=False)
    last_picture = backend_of(connection).last_id(connection, FORMER[0])
    num_results = next(Filling(connection, str, new, last_picture).fill(""))
    temporary.drop_all(connection, checkfirst=False)
    return num_results


def _temporary(one: Table, metadata: MetaData) -> Table:
    """Return a copy of a table without foreign keys, which no temporary table may have."""
    name = one.name.replace("infer_", "infer_sample_", 1)
    columns = [Column(its.name, its.type, primary_key=its.primary_key, autoincrement=False) for its in one.columns]
    keys = [UniqueConstraint(*key.columns.keys()) for key in one.constraints if isinstance(key, UniqueConstraint)]
    indexes = [Index(f"{index.name}_sample", *index.columns.keys()) for index in one.indexes]
    return Table(name, metadata, *columns, *keys, *indexes, prefixes=["TEMPORARY"], **one.dialect_kwargs)
