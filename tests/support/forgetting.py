"""A source of three days with results, and `infer forget` on it."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from infer_app.base.domain import Broken, DetectedObject, FileFacts, Output, Prediction, Reason
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.load import load_settings
from infer_app.cli.commands.maintain_commands import ForgetOptions
from infer_app.cli.project.forget import forget_chosen
from infer_app.cli.project.project import upgrade, write_config
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.project_database import open_project_database
from infer_app.tables.results.schema import pictures
from infer_app.tables.row_audit import audit_rows
from tests.conftest import DAY, MODEL
from tests.support.results import run_day
from tests.support.statements import execute_at

ID, OTHER = MODEL.model_id, "f" * 16
DAYS = [DAY.before(2), DAY.before(1), DAY]
TABLE = '[source]\ntable = "shots"\nlocation = "path"\ntime = "taken"\ntime_zone = "UTC"\n'
NOTHING = {"predictions": 0, "objects": 0, "rejections": 0, "images": 0, "of_second_networks": 0, "pages": 0}


@pytest.fixture(params=["our table", "a table", "another database"])
def listing(request):
    return request.param


@pytest.fixture
def loaded(tmp_path, database, url, monkeypatch, listing, kind):
    """Each day has three images; the file of the third is broken."""
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    photos = tmp_path / "photos"
    photos.mkdir()
    config = write_config(tmp_path)
    rows = []
    for day in DAYS:
        paths = [photos / f"{day.date:%d}-{number}.jpg" for number in range(3)]
        for path in paths:
            path.write_bytes(b"a photo")
        rows += [{"id": path.stem, "path": str(path), "at": f"{day} 12:00:00"} for path in paths]
        if listing == "our table":
            add_images(database, paths, day.start.replace(tzinfo=None) + timedelta(hours=12))
    if listing == "our table":
        config.write_text(config.read_text().replace('# watch = ["photos"]', 'watch = ["photos"]'))
    else:
        source_url = url if listing == "a table" else f"sqlite:///{tmp_path / 'other.db'}"
        at_end = "" if listing == "a table" else f'database_url = "{source_url}"\n'
        config.write_text(config.read_text().replace("[source]\n", TABLE + at_end, 1))
        at = {"postgres": "TIMESTAMP", "mariadb": "DATETIME"}.get(kind, "TEXT") if listing == "a table" else "TEXT"
        insert = "INSERT INTO shots VALUES (:id, :path, :at)"
        execute_at(source_url, f"CREATE TABLE shots (id VARCHAR(20), path VARCHAR(400), taken {at})", (insert, rows))
    upgrade(config)
    loaded = load_settings(config)
    for day in DAYS:
        run(loaded, day)
    return loaded


def forget(loaded, yes=True, as_json=True, **chosen):
    forget_chosen(ForgetOptions(yes=yes, as_json=as_json, config=loaded.path, **chosen))


def run(loaded, day, model_id=ID):
    """What a run does; returns the ids that it selected."""
    with open_project_database(loaded) as project:
        model = replace(MODEL, model_id=model_id, may_be_put_in_use=True)
        return [ref.image_id for ref in run_day(project.database, project.source, day, found_in, model)]


def found_in(ref):
    facts = FileFacts(7, 1.0, "ab" * 32)
    if ref.location.endswith("2.jpg"):
        return Broken(ref, Reason.CORRUPT, "", "decode", facts)
    return Prediction(ref, Output("cat", 0.9, objects=(DetectedObject("cat", 0, 0.9, 0, 0, 1, 1),)), facts)


def counts(loaded, model_id=ID):
    with open_project_database(loaded) as project:
        assert list(audit_rows(project.database)) == []
        return [project.count_day(day, model_id) for day in DAYS]


def stored(loaded, *tables):
    with open_project_database(loaded) as project, project.database.read() as connection:
        return tuple(connection.scalar(select(func.count()).select_from(table)) for table in tables)


def answer(capsys):
    return json.loads(capsys.readouterr().out)


WHOLE, NONE = DayCounts(3, 2, 1, 0), DayCounts(0, 0, 0, 0)


def ids_of(database, *paths):
    with database.read() as connection:
        return list(connection.scalars(select(pictures.c.id).where(pictures.c.location.in_(map(str, paths)))))
