"""Shared small real things: a SQLite database, a registered day, JPEGs made in code."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path

import pytest
from PIL import Image
from sqlalchemy import insert

from infer_app.database.books import Books
from infer_app.database.connect import Database
from infer_app.database.ledger import Ledger, RunModel
from infer_app.database.migrate import upgrade
from infer_app.database.schema import images
from infer_app.database.source import Source
from infer_app.day import Day
from infer_app.job import Tables
from infer_app.settings import SourceSettings
from tests.s3server import S3Server
from tests.s3server import s3_server as run_s3_server

DAY = Day.of(date(2026, 11, 20), "UTC")
MODEL = RunModel("stub", "0123456789abcdef", "cpu-torchscript", {})


@pytest.fixture(autouse=True)
def no_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("INFER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path / 'infer.db'}") as database:
        upgrade(database)
        yield database


@pytest.fixture
def tables(database: Database) -> Tables:
    source = Source(database, SourceSettings())
    return Tables(database, source, Books(database, source), Ledger(database))


@pytest.fixture
def register(database: Database) -> Callable[..., None]:
    """register("a.jpg", "b.jpg", at=datetime(…)) adds rows to infer_images; at noon of DAY unless told."""

    def register_images(*locations: str, at: datetime = datetime(2026, 11, 20, 12)) -> None:
        rows = [{"location": location, "added_at": at} for location in locations]
        with database.write() as connection:
            connection.execute(insert(images), rows)

    return register_images


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    pytest.importorskip("moto")
    with run_s3_server() as server:
        yield server


def jpeg(width: int = 32, height: int = 24, color: tuple[int, int, int] = (200, 60, 30)) -> bytes:
    """A small photo of one colour with a gradient across it."""
    picture = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    picture = Image.blend(picture, Image.new("RGB", (width, height), color), 0.7)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
