"""The command over images that another database lists: a whole day, killed, looked at; the source stays as it was."""

import hashlib
import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.databases.conftest import ServerProject, roles_of
from tests.faults.conftest import NUM_PHOTOS
from tests.support.listeners import refusing_postgres
from tests.support.projects import DATE
from tests.support.statements import connected, execute_at

PAIRS = [
    ("postgres", "sqlite"),
    pytest.param(("sqlite", "postgres"), marks=pytest.mark.full),
    pytest.param(("mariadb", "sqlite"), marks=pytest.mark.full),
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
ALL_DONE = {"eligible": NUM_PHOTOS, "predicted": NUM_PHOTOS - 1, "rejected": 1, "pending": 0}


class ForeignProject(ServerProject):
    """A project whose images are listed by `source_url`, where its role may only read."""

    def snapshot(self):
        """Of all that the source's database holds."""
        url = make_url(self.source_url)
        if url.get_backend_name() == "sqlite":
            return hashlib.sha256(self.source_file.read_bytes()).hexdigest(), sorted(self.source_file.parent.iterdir())
        with connected(url) as connection:
            tables = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE %s OR table_name = %s"
            names = connection.exec_driver_sql(tables, ("infer%", "shots")).scalars().all()
            rows = connection.exec_driver_sql("SELECT * FROM shots ORDER BY id").all()
        return names, rows

    @property
    def source_file(self):
        return Path(make_url(self.source_url).database)


@pytest.fixture(params=PAIRS, ids="-to-".join)
def kinds(request):
    return request.param


@pytest.fixture
def day(kinds, new_url, tmp_path, monkeypatch, models):
    """A day of photos in a table `shots` of the one database, and our tables in the other."""
    source_url = new_url(kinds[0])
    project = ForeignProject(tmp_path / "project", new_url(kinds[1]), models)
    project.source_url = source_url
    project.add_photos(NUM_PHOTOS)  # into a SQLite file that no test looks at again
    (project.photos / "0007.jpg").write_bytes(b"")
    fill(project.source_url, sorted(project.photos.glob("*.jpg")))
    with readable(project) as reader_url:
        settings = {"DATABASE__URL": project.url, "SOURCE__DATABASE_URL": reader_url}
        settings |= {"SOURCE__TABLE": "shots", "SOURCE__LOCATION": "path", "SOURCE__TIME_ZONE": "UTC"}
        for key, value in settings.items():
            monkeypatch.setenv(f"INFER_{key}", value)
        project.forget_database()
        project.upgrade()
        yield project


def fill(url, paths):
    known = {"postgresql": ("TIMESTAMP", "BYTEA"), "sqlite": ("TIMESTAMP", "BLOB")}
    clock, blob = known.get(make_url(url).get_backend_name(), ("DATETIME", "LONGBLOB"))
    create = f"CREATE TABLE shots (id VARCHAR(40) PRIMARY KEY, path VARCHAR(300), added_at {clock}, data {blob})"
    rows = [{"i": f"shot {place:03}", "path": str(path), "data": path.read_bytes()} for place, path in enumerate(paths)]
    execute_at(url, create, (f"INSERT INTO shots VALUES (:i, :path, '{DATE} 08:00:00', :data)", rows))


@contextmanager
def readable(project):
    """The URL of a role that may read `shots` and nothing else; of a SQLite file that may not be written."""
    if make_url(project.source_url).get_backend_name() == "sqlite":
        project.source_file.chmod(0o444)
        yield project.source_url
    else:
        with roles_of(project.source_url) as add_role:
            yield add_role("GRANT SELECT ON {schema}.shots TO {role}")


def test_a_day_from_its_rehearsal_to_its_report_leaves_the_source_as_it_was(day):
    before = day.snapshot()
    said = [day.infer("doctor", "--model", "slow"), day.infer("config", "show", "--origin")]
    assert "is only read" in said[0]
    assert "latest images on 2026-11-20" in said[0]
    assert day.infer_json(*day.command("--dry-run"))["predicted"] > 0
    assert day.results() == []
    report = day.run()
    assert (report["day"], report["reasons"]) == (ALL_DONE, {"empty": 1})
    done = day.results()
    assert day.run()["selected"] == 0
    assert day.results() == done
    day.check_books()
    (status,) = [one for one in day.infer_json("status", "--days", "400")["days"] if one["date"] == DATE]
    assert {key: status[key] for key in ALL_DONE} == ALL_DONE
    assert status["state"] == "done"
    listed = day.list_images("predicted", DATE)
    assert [row["image_id"] for row in listed] == [f"shot {n:03}" for n in range(NUM_PHOTOS) if n != 7]
    assert listed[0]["location"] == str(day.photos / "0000.jpg")
    day.infer("report", "--date", DATE)
    explained = day.infer_json("explain", "--image", "shot 012")
    assert explained["location"] == str(day.photos / "0012.jpg")
    (answers,) = day.infer_json("verify", "--image", "shot 012")["replay"]["answers"]
    assert len({*answers["pairs"][0]}) == 1
    (rejection,) = day.list_images("rejected", DATE)
    assert rejection["image_id"] == "shot 007"
    (day.photos / "0007.jpg").write_bytes((day.photos / "0008.jpg").read_bytes())  # another file than was rejected
    assert day.run()["predicted"] == 1
    day.infer("images", "add", "photos", exit_code=2)
    assert "adds nothing" in day.errors
    assert day.snapshot() == before
    assert "canary" not in "".join(said) + day.errors


@pytest.mark.parametrize("kinds", PAIRS[::2], indirect=True)
def test_images_in_a_column_are_read_where_they_are_listed(day, monkeypatch):
    monkeypatch.setenv("INFER_SOURCE__BYTES", "data")
    assert day.run()["day"] == ALL_DONE
    ((location,),) = day.rows("SELECT p.location FROM infer_rejections r JOIN infer_pictures p ON p.id = r.picture")
    assert location.startswith("row:shot 007@2026-11-20 ")
    day.check_books()


@pytest.mark.parametrize("kinds", [("sqlite", "sqlite")], indirect=True)
def test_a_source_that_is_not_there_is_said_and_never_made(day, tmp_path, monkeypatch):
    missing = tmp_path / "missing.db"
    monkeypatch.setenv("INFER_SOURCE__DATABASE_URL", f"sqlite:///{missing}")
    answer = day.infer_json(*day.command(), exit_code=10)
    assert f"{missing} does not exist" in answer["error"]
    assert not missing.exists()
    with refusing_postgres() as port:
        url = f"postgresql://someone:canary@127.0.0.1:{port}/lab?sslmode=disable&gssencmode=disable"
        monkeypatch.setenv("INFER_SOURCE__DATABASE_URL", url)
        assert f"someone:***@127.0.0.1:{port}/lab" in day.infer_json(*day.command(), exit_code=10)["error"]
        doctor = day.infer("doctor", "--model", "slow", exit_code=10)
    assert "ok    database" in doctor
    assert "FAIL  database: postgresql+psycopg://someone:***@" in doctor
    monkeypatch.setenv("INFER_SOURCE__DATABASE_URL", "postgresql://someone:can@ary@127.0.0.1/lab")
    answer = day.infer_json(*day.command(), exit_code=2)
    assert "[source] database_url has more than one @" in answer["error"]
    monkeypatch.delenv("INFER_SOURCE__DATABASE_URL")
    assert "no table or view 'shots'" in day.infer_json(*day.command(), exit_code=2)["error"]


@pytest.mark.parametrize("kinds", [("postgres", "sqlite")], indirect=True)
def test_the_tables_of_the_other_database_are_looked_at_and_written_down(day, tmp_path, monkeypatch):
    for key in ("DATABASE__URL", "SOURCE__TABLE", "SOURCE__LOCATION", "SOURCE__TIME_ZONE"):
        monkeypatch.delenv(f"INFER_{key}")
    url = os.environ["INFER_SOURCE__DATABASE_URL"]
    monkeypatch.delenv("INFER_SOURCE__DATABASE_URL")
    (day.folder / "infer.toml").unlink()
    day.forget_database()
    said = day.infer("init", "--source", url)
    assert "fill in [source]: names of pictures are in shots" in said
    assert "set INFER_SOURCE__DATABASE_URL" in said
    assert "canary" not in said
    assert (day.folder / "infer.toml").stat().st_mode & 0o777 == 0o600
    day.set("source", table="shots", location="path", time_zone="UTC")
    day.set("images", roots=["photos"])
    day.upgrade()
    assert day.run()["day"] == ALL_DONE
    with closing(sqlite3.connect(day.folder / "infer.db")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM infer_predictions").fetchone() == (NUM_PHOTOS - 1,)


@pytest.mark.parametrize("kinds", [("postgres", "sqlite"), ("postgres", "mariadb")], indirect=True)
def test_an_outage_of_either_server_is_ridden_out(day, private_server, kinds):
    run = day.start_run("--json")
    day.wait_for_results(run, 12)
    for kind in kinds:
        if kind != "sqlite":
            with private_server(kind).stopped():
                time.sleep(1)
    out, err = run.communicate(timeout=100)
    assert run.returncode == 0, out + err
    assert len(day.results()) == NUM_PHOTOS
    day.check_books()
