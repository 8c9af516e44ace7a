"""The steps by which a database answers a statement."""

import json
from dataclasses import dataclass

from sqlalchemy import event

from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections
from infer_app.tables.results.views import VIEWS

OURS = {pictures.name, predictions.name, rejections.name, objects.name}
RESULTS = OURS - {pictures.name} | {object_predictions.name}
KEYS = ("picture", "object_id", "(id")  # by which rows of results are found
ALIASES = ("a", "b", "side_0", "side_1", "other")  # of predictions, where two are compared
IN_VIEWS = ("p", "preferred", "d", "o")  # of predictions and objects

_KNOWN = {*OURS, *RESULTS, *ALIASES, *IN_VIEWS}


@dataclass(frozen=True)
class Step:
    """One step of a plan: a table, or how rows are put together."""

    table: str
    how: str
    reads_all: bool
    sorts: bool = False


def recorded(database):
    """The statements from now on: their text, their parameters, whether these are of many rows."""
    statements = []

    def record(connection, cursor, sql, parameters, context, many):
        statements.append((sql, parameters, many))

    event.listen(database._engine, "before_cursor_execute", record)
    return statements


def is_explained(sql):
    """Those that name our large tables, but for the one look at a row of the time column, which ends at the first."""
    return (
        any(name in sql for name in (*OURS, *RESULTS, *VIEWS))
        and sql.startswith(("SELECT", "DELETE", "UPDATE"))
        and "added_at IS NOT NULL" not in sql
    )


def steps_of(database, statements):
    return [step for statement in statements if is_explained(statement[0]) for step in explain(database, *statement)]


def explain(database, sql, parameters, many):
    """The steps of a statement's plan that concern our large tables."""
    parameters = parameters[0] if many else parameters
    with database.read() as connection:
        if database.file is not None:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters)
            steps = [_sqlite_step(row[3]) for row in rows]
        elif database.dialect.name == "postgresql":
            database.backend.plan_for_pages(connection)
            (plan,) = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {sql}", parameters).scalars()
            plan = plan if isinstance(plan, list) else json.loads(plan)
            steps = list(_postgres_steps(plan[0]["Plan"]))
        else:
            steps = [_mariadb_step(row) for row in connection.exec_driver_sql(f"EXPLAIN {sql}", parameters).mappings()]
    return [step for step in steps if step.table in (*_KNOWN, "")]


def _sqlite_step(detail):
    verb, _, rest = detail.partition(" ")
    table = rest.partition(" ")[0] if verb in ("SCAN", "SEARCH") else ""
    by_model_only = table in RESULTS and not any(f"{key}=?" in detail for key in KEYS)
    return Step(table, detail, verb == "SCAN" or by_model_only, "TEMP B-TREE" in detail)


def _postgres_steps(node):
    name, kind = node.get("Relation Name", ""), node["Node Type"]
    searched = node.get("Index Cond", "") + node.get("Recheck Cond", "")
    is_searched = any(key in searched for key in KEYS) if name in RESULTS else bool(searched)
    by_whole_tables = kind in ("Hash Join", "Merge Join", "Materialize")
    reads_all = by_whole_tables or (bool(name) and not is_searched and kind != "ModifyTable")
    alias = node.get("Alias", name) if name else ""
    table = alias if alias in _KNOWN else alias.rpartition("_")[0]  # numbered in a subquery of that name
    yield Step(table, str(node), reads_all, kind == "Sort")
    for below in node.get("Plans", []):
        yield from _postgres_steps(below)


def _mariadb_step(row):
    """`index` reads all of an index; `filesort` sorts a day for each page."""
    reads_all, sorts = row["type"] in ("ALL", "index"), "filesort" in (row["Extra"] or "")
    return Step(row["table"] or "", str(dict(row)), reads_all, sorts)
