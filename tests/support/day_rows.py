"""Days of images with results, written straight into the tables."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from infer_app.ask.day_report import DayReport, gather
from infer_app.ask.figures.figures import Figures
from infer_app.base.domain import ChunkResult, CropOutput, DetectedObject, FileFacts, ImageRef, Output, Prediction
from infer_app.base.size import Size
from infer_app.tables.engine.connect import Database
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.day_state import DayStates
from infer_app.tables.results.schema import images, models, predictions, rejections, runs
from infer_app.tables.results.sink import Sink
from tests.conftest import DAY, MODEL

Result = tuple[str, str | None, float | None]  # location, label, score
Write = Callable[..., None]


@pytest.fixture
def figures(tables: ProjectDatabase) -> Figures:
    return Figures(tables, MODEL.model_id)


@pytest.fixture
def write(database: Database) -> Write:
    """write(predicted=[(location, label, score)], rejected=[(location, reason)], days_ago=0)"""
    numbers = iter(range(1, 1_000_000))

    def one(table: Any, **row: Any) -> None:
        with database.write() as connection:
            connection.execute(insert(table), row)

    def write_day(
        predicted: Sequence[Result] = (),
        rejected: Sequence[tuple[str, str]] = (),
        days_ago: int = 0,
        detail: str = "ends early",
    ) -> None:
        at = datetime(2026, 11, 20, 12) - timedelta(days=days_ago)
        result = {"model_id": MODEL.model_id, "run_id": f"run-{days_ago}", "created_at": at}
        for location, label, score in predicted:
            number = next(numbers)
            one(images, id=number, location=location, added_at=at)
            more = {"variant": MODEL.variant, "label": label, "score": score, "output": "{}"}
            one(predictions, image_id=str(number), **result, **more)
        for location, reason in rejected:
            number = next(numbers)
            one(images, id=number, location=location, added_at=at)
            more = {"detail": detail, "stage": "decode", "attempts": 1, "decoder": "d", "location": location}
            facts = {"size": 1000, "modified": 1.0, "sha256": "0" * 64}
            one(rejections, image_id=str(number), reason=reason, **result, **more, **facts)

    return write_day


@pytest.fixture
def add_model(database: Database) -> Callable[..., None]:
    """add_model("cats", "id-1", kind="detection", used_until=…) writes a row of infer_models, by default in use."""

    def add(name: str, model_id: str, at: datetime, kind: str = "classification", **changed: Any) -> None:
        row = {"id": model_id, "name": name, "manifest": {"output": {"kind": kind}}, "created_at": at}
        with database.write() as connection:
            connection.execute(insert(models), row | (changed or {"in_use_since": at}))

    return add


@pytest.fixture
def add_run(database: Database) -> Callable[..., None]:
    """add_run(days_ago=1, selected=100, …) writes a row of infer_runs."""

    def add(days_ago: int = 0, run_id: str | None = None, **changed: Any) -> None:
        day = date(2026, 11, 20) - timedelta(days=days_ago)
        at = datetime(2026, 11, 21, 2, 30) - timedelta(days=days_ago)
        row = {
            "id": run_id or f"run-{days_ago}",
            "day": day,
            "time_zone": "UTC",
            "interval_start": at,
            "interval_end": at,
            "model": MODEL.name,
            "model_id": MODEL.model_id,
            "variant": MODEL.variant,
            "executor": "cpu",
            "device": "cpu",
            "host": "box",
            "process": "1@1",
            "versions": {"python": "3.11.7"},
            "state": "done",
            "started_at": at,
            "heartbeat_at": at,
            "ended_at": at,
            "selected": 100,
            "predicted": 99,
            "rejected": 1,
            "reasons": {"truncated": 1},
            "stages": {"decode": 1.65, "model": 12.22},
            "seconds": 10.0,
            "images_per_second": 10.0,
            "limit_images_per_second": 14.0,
            "throughput": {"steady_images_per_second": 12.0, "share_of_limit": 0.86, "limited_by": "model"},
            "exit_code": 0,
        }
        with database.write() as connection:
            connection.execute(insert(runs), row | changed)

    return add


@pytest.fixture
def detect(database: Database) -> Callable[..., None]:
    """detect({location: objects}, days_ago=0) writes images with their objects through the sink."""
    numbers = iter(range(2_000_000, 3_000_000))

    def write_objects(
        found: Mapping[str, Sequence[DetectedObject]], days_ago: int = 0, model_id: str = MODEL.model_id
    ) -> None:
        at, good = datetime(2026, 11, 20, 12) - timedelta(days=days_ago), []
        for location, objects in found.items():
            ref = ImageRef(str(next(numbers)), location)
            label, score = (objects[0].label, objects[0].score) if objects else (None, None)
            good.append(
                Prediction(ref, Output(label, score, objects=tuple(objects)), FileFacts(picture=Size(640, 480)))
            )
        rows = [{"id": int(one.ref.image_id), "location": one.ref.location, "added_at": at} for one in good]
        with database.write() as connection:
            connection.execute(insert(images), rows)
        sink = Sink(database, model_id, MODEL.variant, f"run-{days_ago}")
        sink.commit_chunk(ChunkResult(0, tuple(good), ()))

    return write_objects


@pytest.fixture
def give(database: Database) -> Callable[..., None]:
    """give({location: {0: output}}, "a1") writes what the model gives for objects that version a1 has found there."""

    def write_crops(
        made: Mapping[str, Mapping[int, Output]], detector_id: str, model_id: str = MODEL.model_id, days_ago: int = 0
    ) -> None:
        with database.read() as connection:
            ids = {row[0]: str(row[1]) for row in connection.execute(select(images.c.location, images.c.id))}
        good = []
        for location, outputs in made.items():
            crops = tuple(CropOutput(number, output) for number, output in sorted(outputs.items()))
            best = max((one.output for one in crops), key=lambda one: one.score or 0, default=Output())
            whole = Output(best.label, best.score if best.label else None, crops=crops)
            good.append(Prediction(ImageRef(ids[location], location), whole, FileFacts(picture=Size(640, 480))))
        sink = Sink(database, model_id, MODEL.variant, f"run-{days_ago}", detector_id)
        sink.commit_chunk(ChunkResult(0, tuple(good), ()))

    return write_crops


@pytest.fixture
def output_kind() -> str:
    return "classification"


@pytest.fixture
def make_report(add_model: Callable[..., None], tables: ProjectDatabase, output_kind: str) -> Callable[[], DayReport]:
    add_model(MODEL.name, MODEL.model_id, datetime(2026, 11, 1), output_kind)

    def make() -> DayReport:
        states = DayStates(tables, "5%")
        return gather(tables, states, DAY, (MODEL.name, MODEL.model_id))

    return make
