"""The command on each database: a day from registering to verifying, and rehearsed."""

import uuid

import pytest

from tests.faults.conftest import NUM_PHOTOS
from tests.support.projects import DATE

pytestmark = pytest.mark.slow


@pytest.fixture
def day(project):
    project.add_photos(NUM_PHOTOS)
    (project.photos / "0007.jpg").write_bytes(b"")
    return project


@pytest.mark.parametrize(
    "kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.always), "mariadb"], indirect=True, scope="session"
)
@pytest.mark.timeout(240)
def test_a_day_from_registering_to_verifying(day):
    before = day.results()
    assert day.infer_json(*day.command("--dry-run"))["predicted"] > 0
    assert day.results() == before == []
    assert day.run()["day"] == {"eligible": 90, "predicted": 89, "rejected": 1, "pending": 0}
    done = day.results()
    assert day.run()["selected"] == 0
    assert day.results() == done
    day.check_books()
    assert day.rows("SELECT count(*), min(width), max(height) FROM infer_predictions") == [(89, 40, 30)]
    assert DATE in day.infer("status")
    day.infer("report", "--date", DATE)
    assert len(day.list_images("rejected", DATE)) == 1
    assert day.infer_json("retry", "--date", DATE)["retried"] == 1
    assert day.run()["reasons"] == {"empty": 1}
    assert day.results() == done


def test_a_dry_run_needs_no_right_to_write(day, url, add_role, monkeypatch):
    monkeypatch.setenv("INFER_DATABASE__URL", add_role("GRANT SELECT ON {all} TO {role}"))
    assert day.infer_json(*day.command("--dry-run"))["predicted"] > 0
    monkeypatch.setenv("INFER_SOURCE__TABLE", "infer_runs")
    monkeypatch.setenv("INFER_SOURCE__TIME", "paths")
    day.infer(*day.command("--dry-run"), exit_code=2)
    assert "paths" in day.errors
    assert "column" in day.errors
    for key in ("TABLE", "TIME"):
        monkeypatch.delenv(f"INFER_SOURCE__{key}")
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    assert day.results() == []
    assert day.rows("SELECT count(*) FROM infer_runs") == [(0,)]


def test_results_may_have_a_schema_of_their_own(day, kind, monkeypatch):
    """The tables for results that are there already, in the usual schema, are left alone."""
    monkeypatch.setenv("INFER_DATABASE__RESULTS_SCHEMA", "results")
    if kind != "postgres":
        assert "only PostgreSQL has schemas" in day.infer_json("status", exit_code=2)["error"]
        return
    day.execute("CREATE VIEW photos AS SELECT id, location, added_at FROM public.infer_images")
    day.set("source", table="photos", time_zone="UTC")
    day.forget_database()
    assert "was empty" in day.infer("db", "upgrade")
    assert day.run()["predicted"] == NUM_PHOTOS - 1
    assert day.rows("SELECT count(*) FROM results.infer_predictions") == [(NUM_PHOTOS - 1,)]
    assert day.rows("SELECT count(*) FROM public.infer_predictions") == [(0,)]
    day.check_books()
    assert day.run()["selected"] == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("executor", ["cpu", pytest.param("cuda", marks=pytest.mark.full)])
def test_images_may_lie_in_a_column(day, kind, monkeypatch, executor):
    """As many workers read them, each by a connection of its own."""
    types = {
        "sqlite": ("TEXT", "BLOB", "TIMESTAMP"),
        "postgres": ("UUID", "BYTEA", "TIMESTAMP"),
        "mariadb": ("VARCHAR(36)", "LONGBLOB", "DATETIME"),
    }[kind]
    ids = [str(uuid.UUID(int=number)) for number in range(40)]
    images = [(day.photos / f"{number:04}.jpg").read_bytes() for number in range(40)]
    contents: list[bytes | None] = [*images[:36], b"", None, images[0][:100], b"x" * 70_000]
    create = "CREATE TABLE scans (uid {} PRIMARY KEY, picture {}, came {} NOT NULL)"
    insert = "INSERT INTO scans VALUES (:uid, :picture, '2026-11-20 08:00:00')"
    rows = [{"uid": uid, "picture": data} for uid, data in zip(ids, contents, strict=True)]
    day.execute(create.format(*types), (insert, rows))
    settings = (day.folder / "infer.toml").read_text()
    day.set("source", table="scans", id="uid", bytes="picture", time="came", time_zone="UTC")
    monkeypatch.setenv("INFER_IMAGES__MAX_BYTES", "65536")
    report = day.run("--executor", executor)
    reasons = {"empty": 3, "too_large_bytes": 1, "truncated": 1}  # one of the photos is empty itself
    assert (report["reasons"], report["predicted"]) == (reasons, 35)
    day.check_books()
    shown = day.list_images("rejected", DATE)
    assert {row["location"].partition("@")[0] for row in shown} == {f"row:{uid}" for uid in [ids[7], *ids[36:]]}
    labels = "SELECT label, score, sha256 FROM infer_predictions ORDER BY picture"
    from_column = day.rows(labels)
    (day.folder / "infer.toml").write_text(settings)
    day.run("--executor", executor)
    assert set(from_column) <= set(day.rows(labels))
