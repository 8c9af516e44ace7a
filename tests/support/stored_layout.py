"""A database of each layout that was released: its tables as SQL of each engine, its rows, and what views answer.

`python -m tests.support.stored_layout` writes the file of the present layout, which is never written anew after a
release: a new layout has a number of its own, and a migration.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from sqlalchemy import Connection, column, insert, make_url, table, update
from sqlalchemy.schema import CreateIndex, CreateTable

from infer_app.tables.engine import mysql, postgresql  # noqa: F401  # how they write types
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.stored_notices import Notice, record
from infer_app.tables.listing.stored_notices import event as happened
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.schema import (
    VERSION,
    VERSION_TABLE,
    cameras,
    label_groups,
    metadata,
    pictures,
    thresholds,
)
from infer_app.tables.results.views import VIEWS
from tests.support.results import register_rows
from tests.support.second_networks import DETECTOR, DOG, LION, SECOND, D, StoredModel
from tests.support.statements import connected

FOLDER = Path(__file__).parents[1] / "releases"
URLS = {"sqlite": "sqlite:///", "postgres": "postgresql+psycopg://", "mariadb": "mariadb+pymysql://"}
DIALECTS = {kind: make_url(url).get_dialect()() for kind, url in URLS.items()}


def statements(kind: str) -> list[str]:
    """Return what makes the tables of the present layout in a database of this kind."""
    made: list[str] = []
    for one in metadata.sorted_tables:
        made.append(str(CreateTable(one).compile(dialect=DIALECTS[kind])))
        made += [str(CreateIndex(index).compile(dialect=DIALECTS[kind])) for index in sorted(one.indexes, key=str)]
    made.append(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    return [" ".join(statement.split()) for statement in made]


def stored(version: str) -> dict:
    return json.loads((FOLDER / f"layout_{version}.json").read_text())


def fill(url: str, version: str) -> None:
    """Make the tables of a layout in an empty database, and their rows."""
    known = stored(version)
    with connected(url) as connection:
        kind = {"postgresql": "postgres"}.get(connection.dialect.name, connection.dialect.name)
        for statement in known["statements"][kind]:
            connection.exec_driver_sql(statement)
        for name, (columns, *rows) in known["rows"].items():
            values = [[bytes.fromhex(one["hex"]) if isinstance(one, dict) else one for one in row] for row in rows]
            named = [dict(zip(columns, row, strict=True)) for row in values]
            connection.execute(insert(table(name, *map(column, columns))), named)


def answers(url: str) -> dict[str, list[str]]:
    """Return what views give, each row by the names of its columns; without outputs, which drivers decode."""
    with connected(url) as connection:
        found = {}
        for view in VIEWS:
            rows = connection.exec_driver_sql(f"SELECT * FROM {view}").mappings().all()
            shown = ({name: _answer(row[name]) for name in sorted(row) if name != "output"} for row in rows)
            found[view] = sorted(map(json.dumps, shown))
        return found


def _answer(value: object) -> object:
    """Return a value as all drivers would give it."""
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", value):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    return round(float(value), 6) if isinstance(value, int | float | Decimal) else _shown(value)


def _shown(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return {"hex": bytes(value).hex()}
    return value if isinstance(value, str | int | float | None) else str(value)


def _rows(connection: Connection) -> Iterator[tuple[str, list[list[object]]]]:
    for name in [*(one.name for one in metadata.sorted_tables), VERSION_TABLE]:
        rows = connection.exec_driver_sql(f"SELECT * FROM {name}")
        found = [[_shown(value) for value in row] for row in rows]
        if found:
            yield name, [list(rows.keys()), *found]


def _fill_rows(database: Database) -> None:
    """Write results of a detector and a second network, rejections, cameras, events, thresholds, groups and notices."""
    taken = {"taken_at": datetime(2026, 11, 20, 11), "taken_offset": 3600, "taken_from": "exif", "camera": "north"}
    event = {"captured_at": datetime(2026, 11, 20, 10), "event": 1}
    shared = {"added_at": datetime(2026, 11, 20, 10), "size": 7, "modified": 1.5} | taken
    with database.write() as connection:
        first = {"location": "/1.jpg", **shared, **event, "event_last": 2}
        register_rows(connection, first, {"location": "/2.jpg", **shared, **event, "event_last": None})
        register_rows(connection, *({"location": f"/{n}.jpg", "added_at": shared["added_at"]} for n in (3, 4, 5)))
        connection.execute(update(pictures).where(pictures.c.id == 5).values(missing_since=datetime(2026, 11, 21, 2)))
        camera = {"camera": "north", "place": 0, "shift": 3600.0, "latitude": 52.5, "longitude": 13.25, "retired": 0}
        connection.execute(insert(cameras), camera)
        rows = [("animals", "", 0.25), ("species", "dog", 0.6)]
        connection.execute(insert(thresholds), [dict(zip(thresholds.c.keys(), row, strict=True)) for row in rows])
        groups = [("species", "lion", 0, "animal"), ("species", "lion", 1, "cats"), ("species", "tiger", 0, "animal")]
        connection.execute(insert(label_groups), [dict(zip(label_groups.c.keys(), row, strict=True)) for row in groups])
        record(connection, [Notice("gap", "no images for 3 days", key="2026-11-17"), happened("wrong clock", "1", "w")])
    detector, species = StoredModel(database, DETECTOR), StoredModel(database, SECOND, D)
    for image_id in ("1", "2"):
        detector.detect(image_id, 0.9, 0.2)
        species.classify(image_id, {0: LION, 1: DOG}, vector=bytes(8), vector_dtype="float32", vector_dim=2)
    detector.detect("3")
    detector.reject("4")
    for model in (detector, species):
        model.end_run()


def main() -> None:
    """Write the file of the present layout, by a database that tests fill."""
    with tempfile.TemporaryDirectory() as folder, Database(f"sqlite:///{folder}/infer.db") as database:
        upgrade(database)
        _fill_rows(database)
        with database.read() as connection:
            rows = dict(_rows(connection))
        content = {"statements": {kind: statements(kind) for kind in DIALECTS}, "rows": rows}
        content["answers"] = answers(f"sqlite:///{folder}/infer.db")
    (FOLDER / f"layout_{VERSION}.json").write_text(json.dumps(content, indent=0) + "\n")


if __name__ == "__main__":
    main()
