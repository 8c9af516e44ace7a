"""From layout 1 to 2: a picture is a row, and an object has a number.

The tables that change are set aside, under other names, until the new ones are filled and answer as they did. SQLite
and PostgreSQL do all of it in one transaction. In MariaDB each step counts at once: the tables that are aside tell that
an upgrade was killed. They are put back and it begins again or, once our view of images is there, which is made after
the comparison, it goes on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import SQLAlchemyError

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import backend_of
from infer_app.tables.results.migrate import ASIDE
from infer_app.tables.results.migrations.compare_former import check_same, read_views
from infer_app.tables.results.migrations.fill_pictures import Filling, former_columns
from infer_app.tables.results.runs import check_not_running, refuse_during_runs
from infer_app.tables.results.schema import OUR_IMAGES, metadata, pictures
from infer_app.tables.results.views import VIEWS, make_views

log = logging.getLogger(__name__)
KEPT_AS = ".before-layout-2"  # what is added to the name of SQLite's file
_REPLACED = ["infer_database_id", "infer_predictions", "infer_rejections", "infer_objects", "infer_object_predictions"]
NEW = {name: metadata.tables[name] for name in (pictures.name, *_REPLACED)}
FORMER = (OUR_IMAGES, *_REPLACED)


def upgrade(connection: Connection, new_id: str) -> None:
    """Replace the tables of layout 1, which stay aside; `new_id` is for a database without an id.

    Raises DayHeld while a run is active, and SchemaOutdated if the user has hung something on the tables that would be
    lost, or if the new ones would answer otherwise. Then all is as it was.
    """
    backend = backend_of(connection)
    refuse_during_runs(connection)
    if OUR_IMAGES in _views(connection):
        return  # an upgrade was killed after the comparison
    _put_back(connection)
    _check_attached(connection)
    if copy := backend.keep_copy(connection, KEPT_AS):
        log.warning("%s is a copy of the file as it was", copy)
    views, rights = read_views(connection), {name: backend.rights_on(connection, name) for name in FORMER}
    last_picture = backend.last_id(connection, OUR_IMAGES)
    try:
        backend.rename_tables(connection, {name: aside(name) for name in FORMER})
        check_not_running(connection)  # where changes of tables end the transaction
        metadata.create_all(connection, list(NEW.values()), checkfirst=False)
        for _ in Filling(connection, aside, NEW, last_picture).fill(new_id):
            pass
        backend.plan_by_rows(connection, [*NEW, *map(aside, FORMER)])
        check_same(connection, views, aside)
        metadata.create_all(connection)  # what later layouts add, of which our views select
    except BaseException:
        if not backend.has_transactional_ddl:
            with suppress(SQLAlchemyError):  # else the next upgrade does
                _put_back(connection)
        raise
    make_views(connection)
    for name, statements in rights.items():
        _give_rights(connection, name, statements)


def aside(name: str) -> str:
    return name.replace("infer_", ASIDE, 1)


def drop_former(connection: Connection) -> None:
    """Drop the tables that are aside, once the version tells that others are in their place."""
    for name in sorted(_tables(connection).intersection(map(aside, FORMER))):
        connection.exec_driver_sql(f"DROP TABLE {name}")


def _put_back(connection: Connection) -> None:
    """Put back the tables that a killed upgrade has left aside, in place of those that it has made."""
    found = _tables(connection)
    names = {aside(name): name for name in FORMER if aside(name) in found}
    if not names:
        return
    for one in reversed(metadata.sorted_tables):
        if one.name in found and (one is pictures or aside(one.name) in names):
            connection.exec_driver_sql(f"DROP TABLE {one.name}")
    backend_of(connection).rename_tables(connection, names)


def _check_attached(connection: Connection) -> None:
    """Raise SchemaOutdated for what the user has hung on the tables, which would go with them."""
    inspector, schema = inspect(connection), backend_of(connection).own_schema(connection)
    found = list(backend_of(connection).attached_to(connection, FORMER, VIEWS))
    for name in FORMER:
        names = {one["name"] for one in inspector.get_columns(name, schema)}
        found += [f"the column {one} of {name}" for one in sorted(names - former_columns(name))]
    if found:
        raise SchemaOutdated(
            f"tables named infer_ have to be replaced, and with them would be lost: {', '.join(found)}",
            "drop those, repeat this command, and make them again",
        )


def _give_rights(connection: Connection, name: str, statements: Iterable[str]) -> None:
    """Give the rights on a table of layout 1 on what is in its place: of images on the table and on the view."""
    new = pictures.name if name == OUR_IMAGES else name
    for statement in statements:
        of_column = re.match(r"GRANT \w+ \((\w+)\)", statement)
        if of_column is None or of_column[1] in NEW[new].columns:
            connection.exec_driver_sql(statement.replace(name, new, 1).replace("%", "%%"))
        if name == OUR_IMAGES and " SET (" not in statement:
            connection.exec_driver_sql(statement.replace("%", "%%"))


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names(backend_of(connection).own_schema(connection)))


def _views(connection: Connection) -> set[str]:
    return set(inspect(connection).get_view_names(backend_of(connection).own_schema(connection)))
