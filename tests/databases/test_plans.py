"""No query that runs per page or per chunk reads a whole table, whatever the database thinks of its size.

100,000 images of ten days, half of each predicted: with statistics and without, as after a night that filled them.
"""

import json
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import event, insert, text

from infer_app.database.books import Books
from infer_app.database.foreign import PAGE_SIZE, ForeignSource
from infer_app.database.ledger import Ledger
from infer_app.database.schema import images, predictions, rejections
from infer_app.database.sink import Sink
from infer_app.database.source import Source, plan_for_pages
from infer_app.records import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL

NUM_IMAGES = 100_000
OURS = {images.name, predictions.name, rejections.name}
pytestmark = pytest.mark.slow


@pytest.fixture(params=["analyzed", "as they were filled"])
def filled(request, database, kind):
    started = datetime(2026, 11, 12)
    with database.write() as connection:
        for first in range(0, NUM_IMAGES, 10_000):  # of a folder each: `images add` gives a day's files one time
            at = started + timedelta(days=first // 10_000)
            rows = [{"location": f"/{number}.jpg", "added_at": at} for number in range(first, first + 10_000)]
            connection.execute(insert(images), rows)
    sink = Sink(database, MODEL.model_id, MODEL.variant, "run")
    ids = [str(number) for number in range(1, NUM_IMAGES + 1)]
    for first in range(0, NUM_IMAGES, 20_000):
        good = tuple(Prediction(ImageRef(i, ""), Output(), None) for i in ids[first : first + 20_000 : 2])
        bad = tuple(Broken(ImageRef(i, ""), Reason.CORRUPT, "", "read") for i in ids[first + 1 : first + 20_000 : 20])
        sink.commit_chunk(ChunkResult(0, good, bad))
    if request.param == "analyzed":
        analyze = "ANALYZE TABLE infer_images, infer_predictions, infer_rejections" if kind == "mariadb" else "ANALYZE"
        with database.write() as connection:
            connection.execute(text(analyze)).close()
    return database


def test_no_query_of_a_page_or_a_chunk_reads_a_whole_table(filled, kind):
    statements = []
    event.listen(filled._engine, "before_cursor_execute", lambda *args: statements.append((args[2], args[3], args[5])))
    source = Source(filled, SourceSettings())
    pages = source.select_pages(DAY, MODEL.model_id)
    first, second = next(pages), next(pages)
    both = next(source.select_pages(DAY, MODEL.model_id, "another"))
    assert (len(first), len(second), len(both)) == (1000, 1000, 1000)
    refs = [new.ref for new in second[:64]]
    run_id = Ledger(filled).open_run(DAY, MODEL, "cpu", "cpu")
    good = tuple(Prediction(ref, Output(), None) for ref in refs[:40])
    bad = tuple(Broken(ref, Reason.CORRUPT, "", "read") for ref in refs[40:])
    Sink(filled, MODEL.model_id, MODEL.variant, run_id).commit_chunk(ChunkResult(0, good, bad))
    explained = [step for statement in statements if is_explained(statement[0]) for step in explain(filled, *statement)]
    assert {table for table, _ in explained} >= OURS
    assert [step for step in explained if step[0] in OURS and step[1]] == []


def test_no_query_of_a_page_of_another_database_reads_a_whole_table(filled, kind):
    """Here that is the same, which makes no difference to how it is asked."""
    statements = []
    event.listen(filled._engine, "before_cursor_execute", lambda *args: statements.append((args[2], args[3], args[5])))
    source = ForeignSource(filled, SourceSettings(), filled)
    pages = source.select_pages(DAY, MODEL.model_id, "another")
    assert [len(next(pages)), len(next(pages))] == [PAGE_SIZE] * 2
    books = Books(filled, source)
    assert books.count_day(DAY, MODEL.model_id).eligible == 10_000
    assert books.find_problems(DAY, MODEL.model_id) != []
    explained = [step for one in statements if is_explained(one[0]) for step in explain(filled, *one)]
    assert {table for table, _ in explained} >= OURS
    assert [step for step in explained if step[0] in OURS and step[1]] == []


def is_explained(sql):
    """Those that name our large tables, but for the one look at a row of the time column, which ends at the first."""
    return (
        any(name in sql for name in OURS)
        and sql.startswith(("SELECT", "DELETE", "UPDATE"))
        and "IS NOT NULL" not in sql
    )


def explain(database, sql, parameters, many):
    """(table, what is wrong with how it is read) of each step."""
    parameters = parameters[0] if many else parameters
    with database.read() as connection:
        if database.is_sqlite:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", parameters)
            return [_sqlite_step(row[3]) for row in rows]
        if database.dialect.name == "postgresql":
            plan_for_pages(connection)
            (plan,) = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {sql}", parameters).scalars()
            plan = plan if isinstance(plan, list) else json.loads(plan)
            return list(_postgres_steps(plan[0]["Plan"]))
        rows = connection.exec_driver_sql(f"EXPLAIN {sql}", parameters).mappings()
        return [_mariadb_step(row) for row in rows]


def _sqlite_step(detail):
    verb, _, rest = detail.partition(" ")
    return rest.partition(" ")[0], detail if verb == "SCAN" or "TEMP B-TREE" in detail else ""


def _postgres_steps(node):
    table, kind = node.get("Relation Name", ""), node["Node Type"]
    searched = "Index Cond" in node or "Recheck Cond" in node
    yield table, "" if not table or searched or kind == "ModifyTable" else str(node)
    if kind in ("Hash Join", "Merge Join", "Materialize", "Sort"):
        yield predictions.name, str(node)
    for below in node.get("Plans", []):
        yield from _postgres_steps(below)


def _mariadb_step(row):
    """`index` reads all of an index; `filesort` sorts a day for each page."""
    wrong = row["type"] in ("ALL", "index") or "filesort" in (row["Extra"] or "")
    return row["table"] or "", str(dict(row)) if wrong else ""


def test_later_pages_cost_no_more_than_the_first(filled, kind):
    """By what the database says it does: a page must not begin at the start of its day, nor of its time."""
    if kind == "postgres":
        pytest.skip("PostgreSQL counts no rows that a statement read")
    work = _steps_taken(filled) if filled.is_sqlite else partial(_rows_read, filled)
    source = Source(filled, SourceSettings())
    costs = []
    pages = source.select_pages(DAY, MODEL.model_id)
    for _ in range(4):
        before = work()
        next(pages)
        costs.append(work() - before)
    assert 100 < max(costs) < 1.5 * min(costs)


def _rows_read(database):
    with database.read() as connection:
        rows = connection.exec_driver_sql("SHOW GLOBAL STATUS LIKE 'Handler%%read%%'").all()
        return sum(int(value) for _, value in rows)


def _steps_taken(database):
    """A function that says how many hundreds of steps SQLite's virtual machine has taken."""
    hundreds = []
    event.listen(
        database._engine,
        "checkout",
        lambda connection, *_: connection.set_progress_handler(lambda: hundreds.append(1), 100),
    )
    return lambda: len(hundreds)
