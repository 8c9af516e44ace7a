"""No query that runs per page or per chunk reads a whole table, whatever the database thinks of its size.

100,000 images of ten days, half of each predicted: with statistics and without, as after a night that filled them.
They are registered here; a table of the user's has as many.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import event, text

from infer_app.ask.compare.paired_answers import Overlap, count_overlap
from infer_app.ask.figures.figures import Figures
from infer_app.base.domain import Broken, ChunkResult, CropOutput, DetectedObject, ImageRef, Output, Prediction, Reason
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.cameras.camera_days import CameraDays, read_arrivals
from infer_app.tables.cameras.copies import find_copies, find_late_copies
from infer_app.tables.cameras.periods import CameraClocks
from infer_app.tables.engine.connect import Database
from infer_app.tables.forget_results import forget_results
from infer_app.tables.listing.source import Source
from infer_app.tables.listing.update_list import ListChanges, update_list
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.listed_images import ListedImages
from infer_app.tables.queries.thresholds import count_shown
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections
from infer_app.tables.results.sink import Sink
from infer_app.tables.rows.results import Part, Selection, read, read_preferred, read_rejections, read_together
from infer_app.tables.rows.stored_objects import read_detections
from tests.conftest import DAY, MODEL
from tests.databases.conftest import only
from tests.support.listings import source_of
from tests.support.query_plans import IN_VIEWS, OURS, RESULTS, recorded, steps_of
from tests.support.results import register_rows
from tests.support.statements import execute_all

NUM_IMAGES = 100_000
SECOND = "of the objects"  # id of a second network
CROPS = (CropOutput(0, Output("cat", 0.9)), CropOutput(1, Output("cat", 0.1)))
SHOTS = SourceSettings(table="shots", location="path", time="taken", time_zone="UTC")
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
    listed = "CREATE TABLE shots AS SELECT id, location AS path, added_at AS taken FROM infer_pictures"
    with database.write() as connection:
        execute_all(connection, [listed, "CREATE INDEX at ON shots (taken, id)"])
    RunStore(database).open_run(DAY, replace(MODEL, name="detector"))


def test_no_query_of_a_page_or_a_chunk_reads_a_whole_table(filled):
    statements = recorded(filled)
    source = Source(filled)
    pages = source.select_pages(DAY, MODEL.model_id)
    first, second = next(pages), next(pages)
    both = next(source.select_pages(DAY, MODEL.model_id, SECOND))
    assert (len(first), len(second), len(both)) == (1000, 1000, 1000)
    refs = [new.ref for new in second[:64]]
    written = replace(MODEL, model_id="written")
    run_id = RunStore(filled).open_run(DAY, written)
    good = tuple(Prediction(ref, Output(objects=FOUND)) for ref in refs[:40])
    bad = tuple(Broken(ref, Reason.CORRUPT, "", "read") for ref in refs[40:])
    of_objects = tuple(Prediction(ref, Output(crops=CROPS)) for ref in refs[:40])
    for result, *of in (
        (ChunkResult(0, good, bad), written.model_id, MODEL.variant, run_id, None),
        (ChunkResult(0, of_objects, ()), "second", MODEL.variant, run_id, written.model_id),
    ):
        assert Sink(filled, *of).commit_chunk(result) is result
    known = {n: ImageRef(str(n), "") for n in range(80_001, 81_001)}
    with filled.read() as connection:
        assert len(read_detections(connection, known, MODEL.model_id)) == 550
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS | RESULTS
    assert [step for step in explained if step.reads_all or step.sorts] == []


def test_no_query_of_an_update_of_the_list_reads_a_whole_table(filled):
    """Of another day than that of the other tests. The rows of a day are read as those of the next test."""
    statements = recorded(filled)
    day, source = DAY.before(3), source_of(filled, SHOTS)
    assert update_list(source, day, recent=0) == ListChanges(num_read=10_000, num_new=10_000)
    (first, *_) = next(source.select_pages(day, MODEL.model_id))
    written = Prediction(first.ref, Output(objects=FOUND))
    Sink(filled, "listed", MODEL.variant, "run", registered=False).commit_chunk(ChunkResult(0, (written,), ()))
    with filled.write() as connection:
        execute_all(connection, [f"DELETE FROM shots WHERE id = {first.ref.image_id}"])
    assert update_list(source, day, recent=0) == ListChanges(num_read=9_999, num_unlisted=1)
    assert source.find_by_id(first.ref.image_id) == []
    explained = steps_of(filled, [one for one in statements if "added_at <" not in one[0]])
    assert {step.table for step in explained} >= {pictures.name}
    assert [step for step in explained if step.reads_all or step.sorts] == []


def test_copies_are_found_by_key(filled):
    statements = recorded(filled)
    with filled.read() as connection:
        assert find_copies(connection, range(1, 1001)) == find_late_copies(connection, range(1, 1001)) == {}
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= {pictures.name, predictions.name, "other"}
    assert [step for step in explained if step.reads_all or step.sorts] == []


def test_the_results_of_a_day_are_found_by_key(filled):
    """These may sort the day, whose images MariaDB finds by reading all: here they are a tenth of the table."""
    asked, both = ProjectDatabase(filled, Source(filled)), (MODEL.model_id, "another")
    figures = Figures(asked, MODEL.model_id)
    statements = recorded(filled)
    assert asked.count_day(DAY, MODEL.model_id) == DayCounts(10_000, 5000, 500, 4500)
    assert len(list(read(asked, DAY, Selection()))) >= 5000
    assert len(list(read(asked, DAY, Selection([MODEL.model_id])))) == 5000
    assert len(list(read_rejections(asked, DAY, MODEL.model_id))) == 500
    assert asked.rows.find_problems(DAY, MODEL.model_id) != []
    assert figures.count_predicted(DAY) == 5000
    assert figures.count_labels(DAY) == {}
    assert figures.count_reasons(DAY) == {"corrupt": 500}
    assert figures.score_range(DAY) is None
    assert figures.count_scores(DAY, [0.0, 0.5, 1.0]) == [0, 0]
    assert figures.results.extremes(DAY, 3, highest=True) == []
    assert count_overlap(asked, DAY, both) == Overlap(both=0, only_a=5000, only_b=0, neither=5000)
    assert list(read_together(asked, DAY, both, Part.OUTPUT)) == []
    assert CameraDays(asked).read(DAY, both) == CameraDays(asked).read_results(DAY, both) == {}
    assert read_arrivals(asked, CameraClocks([]), "UTC") == {}
    explained = steps_of(filled, statements)
    assert {step.table for step in explained} >= OURS - {objects.name} | {"a", "b"}
    assert [step for step in explained if step.reads_all and step.table not in ("", pictures.name)] == []


def test_the_objects_of_a_day_are_read_and_deleted_by_key(filled):
    """As of the day's other results."""
    source, other = Source(filled), "another"
    statements = recorded(filled)
    found = list(read_preferred(ListedImages(filled, source), DAY, [MODEL.model_id], Part.OBJECTS))
    assert (len(found), {one.objects for one in found}) == (5000, {FOUND})
    taken = [one.crops for one in read_preferred(ListedImages(filled, source), DAY, [SECOND], Part.CROPS)]
    assert (len(taken), {tuple(crop.score for crop in crops) for crops in taken}) == (5000, {(0.9, 0.1)})
    assert list(read_together(ListedImages(filled, source), DAY, (MODEL.model_id, other), Part.OBJECTS)) == []
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
    source = Source(filled)
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
