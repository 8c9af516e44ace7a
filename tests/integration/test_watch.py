"""`[images] watch`: a folder that gains photos is predicted by the daily job alone."""

import os
import subprocess
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
import tomlkit
from PIL import Image

from infer_app.cli.project.project import init
from tests.support.projects import INFER, Project

DAILY = Path(__file__).parents[2] / "jobs" / "daily.sh"
TODAY = datetime.now(UTC).date()

pytestmark = pytest.mark.slow


@pytest.fixture
def project(tmp_path, built_models):
    """A project as `infer init` makes it, with a model."""
    project = Project(tmp_path / "project")
    init(project.folder)
    project.use_models(built_models)
    return project


def put(project: Project, name: str, day: date, hour: int = 12) -> Path:
    """Save a photo whose file is of this day."""
    file = project.photos / name
    file.parent.mkdir(exist_ok=True)
    Image.new("RGB", (40, 30), (200, 30, 30)).save(file)
    at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC).timestamp()
    os.utime(file, (at, at))
    return file


def daily(project: Project, day: date) -> tuple[int, str]:
    """The daily job as on the morning after `day`."""
    command = [str(DAILY), str(project.folder), "--date", str(day), "--workers", "1"]
    environ = {"PATH": "/usr/bin:/bin", "DAILY_COMMAND": str(INFER)}
    job = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100)
    assert job.stderr == ""
    return job.returncode, job.stdout


def test_a_folder_that_gains_photos_for_five_days_is_predicted_by_the_daily_job_alone(project):
    first = TODAY - timedelta(days=8)
    days = [first + timedelta(days=n) for n in range(5)]
    for number, day in enumerate(days):
        for i in range(2 + number):
            put(project, f"{day}/{i}.jpg", day)
        if number == 3:
            put(project, "late.jpg", days[1])  # copied two days later, with its date kept
        assert daily(project, day) == (0, "")
        assert project.rows("SELECT count(*) FROM infer_images") == project.rows(
            "SELECT count(*) FROM infer_predictions"
        )
    assert project.rows("SELECT date(added_at), count(*) FROM infer_images GROUP BY 1") == [
        (str(day), 2 + number + (number == 1)) for number, day in enumerate(days)
    ]
    put(project, "old.jpg", first - timedelta(days=30))
    code, told = daily(project, days[-1])
    backfill = f"infer backfill --from {first - timedelta(days=30)} --to {first - timedelta(days=30)}"
    assert code == 0
    assert f"attention: 1 image is registered, by the files' own dates, for {first - timedelta(days=30)}" in told
    assert told.rstrip().endswith(backfill)
    told = daily(project, days[-1])[1].rstrip()
    assert f"older than the look-back is pending: `{backfill} --model " in told
    assert told.endswith("predicts them")
    project.infer(*backfill.split()[1:])
    assert daily(project, days[-1]) == (0, "")
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(2 + 3 + 4 + 5 + 6 + 1 + 1,)]


def test_a_dry_run_tells_what_it_would_register_and_registers_nothing(project):
    yesterday = TODAY - timedelta(days=1)
    put(project, "a.jpg", yesterday)
    project.infer("db", "upgrade")
    told = project.infer("run", "--dry-run")
    assert "dry run, nothing registered: 1 new image is not in these figures; `infer run` registers them first" in told
    assert project.infer_json("run", "--dry-run")["registered"]["added"] == 1
    assert project.rows("SELECT count(*) FROM infer_images") == [(0,)]
    run = project.infer_json("run")
    assert (run["registered"]["added"], run["day"]["predicted"], run["attention"]) == (1, 1, [])


def test_a_backfill_registers_too(project):
    day = TODAY - timedelta(days=40)
    put(project, "a.jpg", day)
    assert project.infer_json("backfill", "--from", str(day), "--to", str(day))["day"]["predicted"] == 1


def test_what_is_being_written_waits_and_what_is_no_image_is_left_out(project):
    put(project, "a.jpg", TODAY - timedelta(days=1))
    (project.photos / "b.jpg").write_bytes(b"half of it")
    put(project, "c.jpg", TODAY + timedelta(days=300))  # the camera's clock is wrong: it counts for today
    os.utime(project.photos / "b.jpg", (time.time() + 2, time.time() + 2))
    (project.photos / "d.cr2").write_bytes(b"x")
    run = project.infer_json("run")
    registered = run["registered"]
    assert (registered["added"], registered["later"], registered["unsettled"]) == (2, 1, 1)
    assert registered["other"] == {".cr2": 1}
    assert "1 .cr2" in project.errors
    assert project.rows("SELECT count(*) FROM infer_images WHERE date(added_at) = date('now')") == [(1,)]


def test_a_replaced_file_is_told_once(project):
    file = put(project, "a.jpg", TODAY - timedelta(days=1))
    project.infer("run")
    os.utime(file, (1.5e9, 1.5e9))
    told = project.infer("run")
    assert "attention: 1 registered file was replaced" in told
    command = told.partition("until `infer ")[2].partition("`")[0].split()
    assert "`infer run`" in project.infer(*command)
    assert "attention" not in project.infer("run")


@pytest.mark.parametrize("state", ["missing", "emptied"])
def test_a_watched_folder_that_is_not_there_ends_the_run_with_14(project, state):
    put(project, "a.jpg", TODAY - timedelta(days=1))
    project.infer("run")
    (project.photos / "a.jpg").unlink()
    if state == "missing":
        project.photos.rmdir()
    error = project.infer_json("run", exit_code=14)
    assert str(project.photos) in error["error"]
    assert "[images] watch" in error["hint"]
    assert project.infer_json("doctor", exit_code=14)["exit_code"] == 14


def test_an_empty_folder_of_a_new_project_has_no_images(project):
    assert "there are no images at all" in project.infer("run")


def test_a_folder_that_can_not_be_read_is_told_and_the_others_are_registered(project):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    put(project, "a.jpg", TODAY - timedelta(days=1))
    put(project, "closed/b.jpg", TODAY - timedelta(days=1))
    (project.photos / "closed").chmod(0)
    run = project.infer_json("run")
    (project.photos / "closed").chmod(0o755)
    assert run["day"]["predicted"] == 1
    assert run["attention"] == [f"not registered, since it can't be read: {project.photos}/closed: Permission denied"]


def test_watching_beside_a_table_of_ones_own_is_refused(project):
    config = project.folder / "infer.toml"
    settings = tomlkit.parse(config.read_text())
    settings["source"]["table"] = "shots"
    config.write_text(tomlkit.dumps(settings))
    error = project.infer_json("run", exit_code=2)
    assert error["error"].startswith("[images] watch registers files in our own list")
    found = project.infer_json("doctor", exit_code=2)["findings"]
    assert any(one["found"] == error["error"] for one in found)


def test_two_runs_at_once_register_each_file_once(project):
    for i in range(300):
        put(project, f"{i}.jpg", TODAY - timedelta(days=40))
    project.infer("db", "upgrade")
    runs = [project.start("run", "--json") for _ in range(2)]
    for run in runs:
        run.communicate(timeout=100)
    assert {run.returncode for run in runs} <= {0, 13}
    assert project.rows("SELECT count(*), count(DISTINCT location) FROM infer_images") == [(300, 300)]


def test_a_project_whose_images_stop_coming_is_told_by_the_run_its_mail_status_and_report(project):
    newest = TODAY - timedelta(days=4)
    for n in range(8):
        put(project, f"{n}.jpg", newest - timedelta(days=n))
    project.infer("backfill", "--from", str(newest - timedelta(days=8)), "--to", str(newest))
    assert daily(project, newest + timedelta(days=1)) == (0, "")
    gap = f"the last ones are of {newest}, and 8 of the 14 days up to then had some"
    code, told = daily(project, newest + timedelta(days=2))
    assert code == 0
    assert f"attention: no images for 2 days: {gap}" in told
    assert f"attention: no images for 3 days: {gap}" in project.infer("run")
    assert f"attention: no images for 3 days: {gap}" in project.infer("status")
    assert project.infer_json("status")["attention"][0].startswith("no images for 3 days")
    (report,) = project.infer_json("report")["reports"]
    page = Path(report["file"]).read_text()
    assert report["state"] == "attention"
    assert f"No images for 3 days: {gap}" in page
    backfill = project.infer("backfill", "--from", str(TODAY - timedelta(days=1)), "--to", str(TODAY))
    assert "attention" not in backfill
