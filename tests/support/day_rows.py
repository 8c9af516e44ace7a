"""Days of images with results, as runs commit them, and what is recorded of models and runs."""

from datetime import date, datetime, timedelta
from itertools import count

import pytest
from sqlalchemy import insert, select

from infer_app.ask.day_report import gather
from infer_app.ask.figures.figures import Figures
from infer_app.base.domain import Broken, CropOutput, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.size import Size
from infer_app.tables.day.facts import DayReader
from infer_app.tables.results.schema import models, pictures, runs
from tests.conftest import DAY, MODEL
from tests.support.results import commit, register_rows

PICTURE = FileFacts(picture=Size(640, 480))


@pytest.fixture
def figures(tables):
    return Figures(tables, MODEL.model_id)


def store(database, days_ago, good=(), bad=(), **model):
    """Register the images of results for a day, and commit these in the day's run."""
    at = datetime(2026, 11, 20, 12) - timedelta(days=days_ago)
    rows = [{"id": int(one.ref.image_id), "location": one.ref.location, "added_at": at} for one in (*good, *bad)]
    with database.write() as connection:
        register_rows(connection, *rows)
    commit(database, good, bad, f"run-{days_ago}", **model)


@pytest.fixture
def write(database):
    """write(predicted=[(location, label, score)], rejected=[(location, reason)], days_ago=0)"""
    ids, facts = map(str, count(1)), FileFacts(1000, 1.0, "0" * 64)

    def write_day(predicted=(), rejected=(), days_ago=0, detail="ends early"):
        good = [Prediction(ImageRef(next(ids), location), Output(*best)) for location, *best in predicted]
        refs = [(ImageRef(next(ids), location), Reason(reason)) for location, reason in rejected]
        store(database, days_ago, good, [Broken(*one, detail, "decode", facts, "d") for one in refs])

    return write_day


@pytest.fixture
def add_model(database):
    """add_model("cats", "id-1", at, kind="detection", used_until=…) writes a row of infer_models, by default in use."""

    def add(name, model_id, at, kind="classification", **changed):
        row = {"id": model_id, "name": name, "manifest": {"output": {"kind": kind}}, "created_at": at}
        with database.write() as connection:
            connection.execute(insert(models), row | (changed or {"in_use_since": at}))

    return add


@pytest.fixture
def add_run(database):
    """add_run(days_ago=1, selected=100, …) writes a row of infer_runs."""

    def add(days_ago=0, run_id=None, **changed):
        with database.write() as connection:
            connection.execute(insert(runs), run_row(days_ago, run_id) | changed)

    return add


def run_row(days_ago=0, run_id=None):
    """Return the row of a run that went well."""
    day = date(2026, 11, 20) - timedelta(days=days_ago)
    at = datetime(2026, 11, 21, 2, 30) - timedelta(days=days_ago)
    row = dict.fromkeys(("interval_start", "interval_end", "started_at", "heartbeat_at", "ended_at"), at)
    row |= {"id": run_id or f"run-{days_ago}", "day": day, "time_zone": "UTC", "state": "done", "exit_code": 0}
    row |= {"model": MODEL.name, "model_id": MODEL.model_id, "variant": MODEL.variant, "executor": "cpu"}
    row |= {"device": "cpu", "host": "box", "process": "1@1", "versions": {"python": "3.11.7"}}
    row |= {"selected": 100, "predicted": 99, "rejected": 1, "reasons": {"truncated": 1}}
    row |= {"stages": {"decode": 1.65, "model": 12.22}, "seconds": 10.0, "images_per_second": 10.0}
    measured = {"steady_images_per_second": 12.0, "share_of_limit": 0.86, "limited_by": "model"}
    return row | {"limit_images_per_second": 14.0, "throughput": measured}


@pytest.fixture
def detect(database):
    """detect({location: objects}, days_ago=0) writes images with their objects."""
    ids = map(str, count(2_000_000))

    def write_objects(found, days_ago=0, model_id=MODEL.model_id):
        good = []
        for location, objects in found.items():
            best = (objects[0].label, objects[0].score) if objects else ()
            output = Output(*best, objects=tuple(objects))
            good.append(Prediction(ImageRef(next(ids), location), output, PICTURE))
        store(database, days_ago, good, model_id=model_id)

    return write_objects


@pytest.fixture
def give(database):
    """give({location: {0: output}}, "a1") writes what the model gives for objects that version a1 has found there."""

    def write_crops(made, detector_id, days_ago=0):
        with database.read() as connection:
            ids = {row[0]: str(row[1]) for row in connection.execute(select(pictures.c.location, pictures.c.id))}
        good = []
        for location, outputs in made.items():
            crops = tuple(CropOutput(number, output) for number, output in sorted(outputs.items()))
            best = max((one.output for one in crops), key=lambda one: one.score or 0, default=Output())
            whole = Output(best.label, best.score if best.label else None, crops=crops)
            good.append(Prediction(ImageRef(ids[location], location), whole, PICTURE))
        commit(database, good, run_id=f"run-{days_ago}", detector_id=detector_id)

    return write_crops


@pytest.fixture
def output_kind():
    return "classification"


@pytest.fixture
def make_report(add_model, tables, output_kind):
    """make_report() is the report of DAY; make_report(version) that of one more."""
    add_model(MODEL.name, MODEL.model_id, datetime(2026, 11, 1), output_kind)
    return lambda *more: gather(tables, DayReader(tables, "5%"), DAY, [(MODEL.name, MODEL.model_id), *more])
