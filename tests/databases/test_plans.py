"""No query that runs per page or per chunk reads a whole table, whatever the database thinks of its size.

100,000 images of ten days, half of each predicted: with statistics and without, as after a night that filled them.
They are registered here, and listed again by a table of the user's, among whose pictures are those with results.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import event, insert, literal, null, select, text

from infer_app.ask.compare.paired_answers import Overlap, count_overlap
from infer_app.ask.figures.detections import Part, read_predicted_images, read_together
from infer_app.ask.figures.figures import Figures
from infer_app.base.domain import Broken, ChunkResult, CropOutput, DetectedObject, ImageRef, Output, Prediction, Reason
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.engine.column_types import PictureKey
from infer_app.tables.engine.connect import Database
from infer_app.tables.forget_results import forget_results
from infer_app.tables.listing.cross_database_source import PAGE_SIZE, CrossDatabaseSource
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.stored_objects import read_detections
from infer_app.tables.queries.thresholds import count_shown
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections
from infer_app.tables.results.sink import Sink
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.query_plans import IN_VIEWS, OURS, RESULTS, recorded, steps_of
from tests.support.results import register_rows
from tests.support.statements import execute_all

NUM_IMAGES = 100_000
SECOND = "of the objects"  # id of a second network
THEIRS = 1_000_000  # from here on are the numbers of the pictures that the user's table lists, and of their objects
CROPS = (CropOutput(0, Output("cat", 0.9)), CropOutput(1, Output("cat", 0.1)))
SHOTS = SourceSettings(table="shots", location="path", time="taken", time_zone="UTC")
SOURCES = pytest.mark.parametrize("settings", [SourceSettings(), SHOTS], ids=["ours", "a user's table"])
FOUND = tuple(DetectedObject("cat", 0, score, 0.0, 0.0, 1.0, 1.0) for score in (0.9, 0.1))
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["analyzed", pytest.param("as they were filled", marks=pytest.mark.always)])
def filled_url(request, kind, new_database):
    """The URL of a database that every test finds alike: what one writes, no other one counts."""
    with new_database(kind) as url:
        with Database(url) as database:
            upgrade(database)
            fill(database)
            if request.param == "analyzed":
                tables = f"TABLE {', '.join(OURS)}" if kind == "mariadb" else ""
                with database.write() as connection:
                    connection.execute(text(f"ANALYZE {tables}")).close()
        yield url


@pytest.fixture
def filled(filled_url):
    with Database(filled_url) as database:
        yield database


def fill(database):
    started = datetime(2026, 11, 12)
    with database.write() as connection:
        for first in range(0, NUM_IMAGES, 10_000):  # of a folder each: `images add` gives a day's files one time
            at = started + timedelta(days=first // 10_000)
            rows = [{"location": f"/{number}.jpg", "added_at": at} for number in range(first, first + 10_000)]
            register_rows(connection, *rows)
    sink = Sink(database, MODEL.model_id, MODEL.variant, "run")
    ids = [str(number) for number in range(1, NUM_IMAGES + 1)]
    for first in range(0, NUM_IMAGES, 20_000):
        good = tuple(Prediction(ImageRef(i, ""), Output(objects=FOUND)) for i in ids[first : first + 20_000 : 2])
        bad = tuple(Broken(ImageRef(i, ""), Reason.CORRUPT, "", "read") for i in ids[first + 1 : first + 20_000 : 20])
        sink.commit_chunk(ChunkResult(0, good, bad))
    second = Sink(database, SECOND, MODEL.variant, "run", MODEL.model_id)
    for first in range(0, NUM_IMAGES, 20_000):
        good = tuple(Prediction(ImageRef(i, ""), Output(crops=CROPS)) for i in ids[first : first + 20_000 : 2])
        second.commit_chunk(ChunkResult(0, good, ()))
    with database.write() as connection:
        list_again(connection)
    RunStore(database).open_run(DAY, replace(MODEL, name="detector"))


def list_again(connection):
    """List all in a table of the user's too; the results of its pictures are copies of ours."""
    listed = "CREATE TABLE shots AS SELECT id, location AS path, added_at AS taken FROM infer_pictures"
    execute_all(connection, [listed, "CREATE UNIQUE INDEX by_id ON shots (id)", "CREATE INDEX at ON shots (taken, id)"])
    has_result = pictures.c.id.in_(select(predictions.c.picture).union(select(rejections.c.picture)))
    for table in (pictures, predictions, rejections, objects, object_predictions):
        is_number = ("id", "picture", "object_id")
        copied = {column.name: column + THEIRS if column.name in is_number else column for column in table.c}
        if table is pictures:
            key = PictureKey(pictures.c.image_id, pictures.c.location)
            copied |= {"registered": literal(0), "added_at": null(), "key": key}
        rows = select(*copied.values()).where(*[has_result] if table is pictures else [])
        connection.execute(insert(table).from_select(list(copied), rows))


@SOURCES
def test_no_query_of_a_page_or_a_chunk_reads_a_whole_table(filled, settings):
    statements = recorded(filled)
    source = Source(filled, settings)
    pages = source.select_pages(DAY, MODEL.model_id)
    first, second = next(pages), next(pages)
    both = next(source.select_pages(DAY, MODEL.model_id, SECOND))
    assert (len(first), len(second), len(both)) == (1000, 1000, 1000)
    refs = [new.ref for new in second[:64]]
    number = None if source.is_ours else 1
    written = replace(MODEL, model_id=f"written {number}")
    run_id = RunStore(filled).open_run(DAY, written)
    good = tuple(Prediction(ref, Output(objects=FOUND)) for ref in refs[:40])
    bad = tuple(Broken(ref, Reason.CORRUPT, "", "read") for ref in refs[40:])
    of_objects = tuple(Prediction(ref, Output(crops=CROPS)) for ref in refs[:40])
    for result, *of in (
        (ChunkResult(0, good, bad), written.model_id, MODEL.variant, run_id, None),
        (ChunkResult(0, of_objects, ()), f"second {number}", MODEL.variant, run_id, written.model_id),
    ):
        assert Sink(filled, *of, source.registered).commit_chunk(result) is result
    asked = ProjectDatabase(filled, source)
    assert asked.count_day(DAY, MODEL.model_id) == DayCounts(10_000, 5000, 500, 4500)
    known = {n + (0 if source.is_ours else THEIRS): ImageRef(str(n), "") for n in range(80_001, 81_001)}
    with filled.read() as connection:
        assert len(read_detections(connection, known, MODEL.model_id)) == 550
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS | RESULTS
    assert [step for step in explained if step.reads_all or step.sorts] == []


@SOURCES
def test_no_query_of_a_page_of_another_database_reads_a_whole_table(filled, settings):
    """Here that is the same, which makes no difference to how it is asked."""
    statements = recorded(filled)
    source = CrossDatabaseSource(filled, settings, filled)
    pages = source.select_pages(DAY, MODEL.model_id, "another")
    assert [len(next(pages)), len(next(pages))] == [PAGE_SIZE] * 2
    asked = ProjectDatabase(filled, source)
    assert asked.count_day(DAY, MODEL.model_id).eligible == 10_000
    assert asked.rows.find_problems(DAY, MODEL.model_id) != []
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS
    sorts_pages = filled.file is not None  # whose rows of JSON are in no order that it knows
    assert [step for step in explained if step.reads_all or (step.sorts and not sorts_pages)] == []


@SOURCES
def test_no_list_or_figure_of_a_page_of_another_database_reads_a_whole_table(filled, settings):
    """These may sort the page."""
    source = CrossDatabaseSource(filled, settings, filled)
    asked, both = ProjectDatabase(filled, source), (MODEL.model_id, "another")
    figures = Figures(asked, MODEL.model_id)
    statements = recorded(filled)
    assert len(list(asked.rows.read_predictions(DAY))) >= 5000
    assert len(list(asked.rows.read_predictions(DAY, MODEL.model_id))) == 5000
    assert len(list(asked.rows.read_rejections(DAY, MODEL.model_id))) == 500
    assert figures.count_predicted(DAY) == 5000
    assert figures.count_labels(DAY) == {}
    assert figures.count_reasons(DAY) == {"corrupt": 500}
    assert figures.score_range(DAY) is None
    assert figures.count_scores(DAY, [0.0, 0.5, 1.0]) == [0, 0]
    assert figures.results.extremes(DAY, 3, highest=True) == []
    assert len(figures.some_rejected(DAY, "corrupt", 3)) == 3
    assert count_overlap(asked, DAY, both) == Overlap(both=0, only_a=5000, only_b=0, neither=5000)
    assert list(read_together(ListedImages(filled, source), DAY, both, Part.OUTPUT)) == []
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS - {objects.name} | {"a", "b"}
    assert [step for step in explained if step.reads_all] == []


@SOURCES
def test_the_objects_of_a_day_are_read_and_deleted_by_key(filled, settings):
    """These may sort the day, whose images MariaDB finds by reading all: here they are a tenth of the table."""
    source, other = Source(filled, settings), "another"
    statements = recorded(filled)
    found = list(read_predicted_images(ListedImages(filled, source), DAY, MODEL.model_id))
    assert (len(found), {one.objects for one in found}) == (5000, {FOUND})
    taken = [one.crops for one in read_predicted_images(ListedImages(filled, source), DAY, SECOND, part=Part.CROPS)]
    assert (len(taken), {tuple(crop.score for crop in crops) for crops in taken}) == (5000, {(0.9, 0.1)})
    assert list(read_together(ListedImages(filled, source), DAY, (MODEL.model_id, other))) == []
    assert count_shown(filled, source, DAY, "detector") == 10_000
    assert forget_results(filled, {(other, other): [one.picture for one in found]}, [DAY.date]) == 0
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS - {rejections.name} | {object_predictions.name}
    assert {step.table for step in explained} & set(IN_VIEWS)
    assert [step for step in explained if step.reads_all and step.table not in ("", pictures.name)] == []


@pytest.mark.parametrize("filled_url", ["analyzed"], indirect=True)
def test_the_crops_of_an_image_are_found_by_key(filled):
    """Labels that suffice only together are grouped, and sorted, for each object.

    Only a user asks for several images at once: a night's rows have statistics by then.
    """
    for name, model_id in (("detector", MODEL.model_id), ("second", SECOND)):
        switch_version(filled, name, model_id, {"crop": {"of": "detector"}})
    statements = recorded(filled)
    with filled.read() as connection:
        found = connection.execute(text("SELECT * FROM infer_shown_crops WHERE picture IN (7, 9)")).all()
    assert sorted((row.image_id, row.object, row.detected_score) for row in found) == [
        (image_id, number, FOUND[number].score) for image_id in ("7", "9") for number in (0, 1)
    ]
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= set(IN_VIEWS)
    assert [step for step in explained if step.reads_all and step.table] == []


@only("sqlite", "mariadb")  # PostgreSQL counts no rows that a statement read
def test_later_pages_cost_no_more_than_the_first(filled):
    """By what the database says it does: a page must not begin at the start of its day, nor of its time."""
    work = _steps_taken(filled) if filled.file is not None else partial(_rows_read, filled)
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
