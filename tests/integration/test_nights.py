"""What a person hears of the nights, and what only shows over several: by `jobs/daily.sh`, with a clock that is set."""

import hashlib
import os
from datetime import UTC, date, datetime, time, timedelta
from types import SimpleNamespace

import pytest
from PIL import Image

from infer_app.base.machine import process_identity
from tests.support.clock import Clock, needs_faketime
from tests.support.listeners import Recorder
from tests.support.networks import ChannelMeans, save
from tests.support.projects import INFER, Project, build_model
from tests.support.waiting import wait_until
from tests.support.watched import YESTERDAY, put, run_daily

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # of a month of nights, on a machine however slow

FIRST = date(2026, 10, 1)  # the first night is that after it
CAMERAS = 4
USUAL = 20  # photos a day
RESULTS = "infer_images i JOIN infer_predictions p ON p.picture = i.id"


@needs_faketime
def test_yesterday_is_one_day_for_all_parts_of_a_command_that_runs_over_midnight(project, tmp_path):
    clock, server = Clock(tmp_path / "clock"), Recorder()
    clock.set(datetime(2026, 11, 21, 23, 0, tzinfo=UTC))
    server.gates["/end"] = SimpleNamespace(wait=lambda: clock.set(datetime(2026, 11, 22, 0, 10, tzinfo=UTC)))
    project.set("webhook", url=f"{server.url}/end")  # told when the run is over, before its report is written
    project.add_photos(3)
    project.infer("run", "--report", **clock.environ)
    server.close()
    assert project.rows("SELECT day, selected FROM infer_runs ORDER BY day DESC LIMIT 1") == [("2026-11-20", 3)]
    assert [page.name for page in (project.folder / "reports").glob("2*.html")] == ["2026-11-20.html"]


@pytest.mark.parametrize(
    ("away", "exit_code", "error"), [("photos", 14, "the image storage"), ("models", 12, "has no model, and in use in")]
)
def test_a_run_that_failed_before_it_held_a_day_is_in_status_until_one_has_done_the_day(
    project, away, exit_code, error
):
    project.add_photos(2, date="yesterday")
    project.infer("run")
    project.photos.with_name(away).rename(project.folder / "away")
    project.photos.mkdir(exist_ok=True)
    project.set("images", watch=["photos"])
    told = project.infer_json("run", exit_code=exit_code)
    failed = project.rows("SELECT state, exit_code, error, model FROM infer_runs ORDER BY started_at DESC LIMIT 1")
    assert failed == [("failed", exit_code, told["error"], "colors")]
    row = max(project.infer_json("status")["days"], key=lambda one: one["date"])
    assert row["last_run"]["exit_code"] == exit_code
    if away == "photos":
        project.photos.rmdir()
    (project.folder / "away").rename(project.photos.with_name(away))
    project.infer("run")
    row = max(project.infer_json("status")["days"], key=lambda one: one["date"])
    assert (row["state"], row["last_run"]["exit_code"]) == ("done", 0)


def test_what_a_killed_night_had_found_is_told_by_the_next_one(project):
    photos = [project.photos / f"cam/{name}.jpg" for name in "ab"]
    for photo in photos:
        put(project, f"cam/{photo.name}", YESTERDAY)
    project.set("images", watch=["photos"])
    project.infer("run", "--quiet")
    photos[0].unlink()
    put(project, "cam/c.jpg", date(1980, 1, 2))
    with project.start("run", "--quiet") as run:
        wait_until(lambda: project.rows("SELECT 1 FROM infer_pictures WHERE missing_since IS NOT NULL"))
        run.kill()
    photos[1].rename(project.photos / "b.jpg")
    told = project.infer("run", "--quiet")
    assert "attention: 1 new image has a time before 1995" in told
    assert "attention: 2 of 3 images registered in" in told
    assert project.infer("run", "--quiet") == ""


def test_old_images_of_an_own_table_are_mailed_once_and_again_when_there_are_more(project):
    project.add_photos(2, date="2026-01-20")
    project.own_table()
    mails = [project.infer("run", "--quiet") for _ in range(2)]
    project.write("INSERT INTO shots SELECT 3, location, added_at FROM shots LIMIT 1")
    mails.append(project.infer("run", "--quiet"))
    assert [mail[:20] for mail in mails] == ["attention: 2 images ", "", "attention: 3 images "]
    assert project.infer("run", "--quiet") == ""


def test_a_restored_database_is_told_once_with_the_version_that_is_run(project):
    project.add_photos(2, date="yesterday")
    project.infer("run", "--quiet")
    backup = (project.folder / "infer.db").read_bytes()
    project.infer("run", "--quiet")
    for file in project.folder.glob("infer.db*"):
        file.unlink()
    (project.folder / "infer.db").write_bytes(backup)
    told, again = project.infer("run", "--quiet"), project.infer("run", "--quiet")
    assert ("was a backup restored? colors@" in told, again) == (True, "")


class Month:
    """A project that cron runs each night, with photos of a few cameras."""

    def __init__(self, project: Project, clock: Clock) -> None:
        self.project, self.clock = project, clock
        self.day = FIRST
        self.num_photos = 0

    def shoot(self, day: date, count: int = USUAL, folder: str = "", *, taken: datetime | None = None) -> None:
        """Save photos of a day, each of its own bytes."""
        for number in range(count):
            self.num_photos += 1
            file = self.project.photos / (folder or f"cam{number % CAMERAS}") / f"{self.num_photos:05}.png"
            file.parent.mkdir(exist_ok=True)
            color = (200, self.num_photos % 251, self.num_photos // 251)
            Image.new("RGB", (8, 6), color).save(file)
            at = (taken or datetime(day.year, day.month, day.day, 8 + number % 12, tzinfo=UTC)).timestamp()
            os.utime(file, (at, at))

    def night(self) -> tuple[int, list[str]]:
        """The exit code of the job of the night after the day, and what is mailed; the day after it begins then."""
        self.day += timedelta(days=1)
        self.clock.set(datetime(self.day.year, self.day.month, self.day.day, 2, 30, tzinfo=UTC))
        job = run_daily(self.project.folder, DAILY_COMMAND=str(INFER), **self.clock.environ)
        assert job.stderr == ""
        return job.returncode, job.stdout.splitlines()[1:]  # without what was run where

    def unpredicted(self) -> list[str]:
        """Photos without a prediction that was made from their bytes; none is registered twice."""
        known = set(self.project.rows(f"SELECT i.location, p.sha256 FROM {RESULTS}"))
        assert self.project.rows("SELECT count(*) = count(DISTINCT location) FROM infer_images") == [(1,)]
        files = [file for file in self.project.photos.rglob("*.png") if file.is_file()]
        digests = ((str(file), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files)
        return sorted(location for location, sha256 in digests if (location, sha256) not in known)

    def use_another_version(self) -> str:
        """Build another version of the model, put it in use and return its id."""
        project = self.project
        (old,) = project.rows("SELECT id FROM infer_models")[0]
        save(ChannelMeans(), project.folder / "colors.ts")
        build_model(project.folder, "colors.ts", "colors", "--recipe", "stretch", "--size", "8")
        project.infer("model", "use", "colors", **self.clock.environ)
        (new,) = project.rows(f"SELECT id FROM infer_models WHERE id != '{old}'")[0]
        return new


@pytest.fixture
def month(project, watching):
    return Month(project, Clock())


def expect(month: Month, *told: str, left: int = 0) -> list[str]:
    """Let a night pass and return its mail, which has exactly these lines; all photos but `left` are predicted."""
    code, mail = month.night()
    assert (code, len(mail)) == (0, len(told)), (month.day, mail)
    assert all(f"attention: {one}" in line for one, line in zip(told, mail, strict=True)), (month.day, mail)
    assert len(month.unpredicted()) == left, month.day
    return mail


def usual(month: Month, *told: str, nights: int = 1, count: int = USUAL, **more: object) -> list[str]:
    for _ in range(nights):
        month.shoot(month.day, count)
        mail = expect(month, *told, **more)
    return mail


@needs_faketime
def test_nights_are_mailed_where_something_happened_and_silent_otherwise(month):
    usual(month, nights=5)
    # a day with a tenth of its photos: once, also if the next one is as poor
    usual(month, "2026-10-06: unusual: 2 images, 20 a day before", count=2)
    usual(month, count=2)
    usual(month, nights=2)
    # a memory card of two days of three weeks ago
    month.shoot(FIRST - timedelta(days=10), 9, "card")
    month.shoot(FIRST - timedelta(days=11), 9, "card")
    usual(month)
    # photos are deleted, one in each of two nights
    for file in sorted(month.project.photos.glob("card/*"))[:2]:
        file.unlink()
        usual(month, "1 of 18 images registered in ")
    # a day's photos from a camera that is a year ahead
    month.shoot(month.day, 3, taken=datetime(2027, 10, 10, tzinfo=UTC))
    usual(month, "3 new images have a time before 1995", left=3)  # dated today: the next night takes them
    # another version: it predicts what was registered within a week, older days keep their results
    backup, new = (month.project.folder / "infer.db").read_bytes(), month.use_another_version()
    usual(month)
    ran = {day for (day,) in month.project.rows(f"SELECT date(added_at) FROM {RESULTS} WHERE model_id = '{new}'")}
    assert {"2026-09-20", "2026-10-10", "2026-10-14"} <= ran
    assert not ran & {"2026-10-01", "2026-10-02"}
    # the database of the night before: it lacks that version, which the command in the mail puts in use again
    (month.project.folder / "infer.db").write_bytes(backup)
    (told,) = usual(month, "the database lacks run 202610")
    month.project.infer(*told.split("`")[1].split()[1:], **month.clock.environ)
    usual(month)
    assert month.project.rows(f"SELECT count(*) FROM infer_predictions WHERE model_id = '{new}'")[0][0] > 4 * USUAL


@needs_faketime
def test_nights_beside_another_run_in_another_time_zone_and_after_a_folder_was_renamed(month):
    project = month.project
    usual(month)
    # another run holds a day of the look-back: the others are done
    held = "UPDATE infer_runs SET state = ?, process = ? WHERE day = '2026-10-01'"
    project.write(held, "running", process_identity(os.getpid()))
    month.shoot(month.day)
    code, mail = month.night()
    assert (code, month.unpredicted()) == (13, [])
    assert all(one in "".join(mail) for one in ("2026-10-01 with model colors is held", f"process {os.getpid()} on "))
    project.write(held, "done", "")
    usual(month)
    # half an hour after midnight in another zone: of the next day, which is done the next night
    project.set("run", time_zone="Europe/Berlin")
    month.shoot(month.day, 3, taken=datetime.combine(month.day, time(22, 30), UTC))
    usual(month, left=3)
    usual(month)
    # a camera's folder is renamed: its photos are new ones
    (project.photos / "cam3").rename(project.photos / "river")
    usual(month, "25 of 30 images registered in ")
    usual(month)
    # a camera begins again with the year 2000
    month.shoot(month.day, 4, taken=datetime(2000, 1, 1, 0, 5, tzinfo=UTC))
    usual(month, "4 new images have a time before 1995, years before")
    usual(month)
