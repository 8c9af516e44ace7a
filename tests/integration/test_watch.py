"""`[images] watch`: a folder that gains photos is predicted by the daily job alone."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from PIL import Image

from tests.support.projects import INFER
from tests.support.watched import OLD, TODAY, YESTERDAY, daily, put, stating

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("watching")]


def test_photos_of_weeks_ago_are_predicted_by_the_next_run_each_on_its_own_day(project):
    """A memory card that was collected: one run is too short for it, the next one does the rest."""
    newest = TODAY - timedelta(days=20)
    days = [newest - timedelta(days=n) for n in range(5)]
    put(project, "new.jpg", YESTERDAY)
    for number in range(50):
        put(project, f"card/{number}.jpg", days[number % 5])
    assert project.infer_json("run", "--limit", "11", "--workers", "1")["registered"]["earlier"] == 50
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(11,)]
    assert "attention: over: 40 images older than the look-back are pending" in daily(project, YESTERDAY)[1]
    by_day = "SELECT day, sum(predicted) FROM infer_runs WHERE predicted > 0 GROUP BY day ORDER BY day"
    assert project.rows(by_day) == [(str(day), 10) for day in reversed(days)] + [(str(YESTERDAY), 1)]
    assert project.infer_json("run")["late"] == []


@pytest.mark.parametrize(
    ("command", "num_late"),
    [
        (("backfill", "--from", str(YESTERDAY), "--to", str(YESTERDAY)), 0),
        (("run", "--date", str(TODAY - timedelta(days=2)), "--lookback", "0"), 0),
        (("run", "--model", "colors@{}"), 0),
        (("run", "--model", "colors", "--date", str(YESTERDAY)), 1),
        (("run", "--date", "today"), 1),
    ],
    ids=["backfill", "an earlier day", "a version", "yesterday", "today"],
)
def test_only_a_daily_run_takes_late_days_and_not_one_that_tries_a_version(project, command, num_late):
    """Every run registers; `backfill` too."""
    put(project, "old.jpg", OLD)
    model_id = project.infer_json("model", "list")["models"][0]["model_id"]
    run = project.infer_json(*(word.format(model_id) for word in command))
    assert (len(run["late"]), run["older_pending"]) == (num_late, 1 - num_late)


def test_photos_may_be_of_the_day_that_they_were_taken_on(project):
    project.set("images", day="taken")
    taken = TODAY - timedelta(days=9)
    exif = stating(f"{taken:%Y:%m:%d} 12:00:00")
    put(project, "a.jpg", YESTERDAY, exif=exif)
    long = put(project, "long.jpg", YESTERDAY, exif=exif, xmp=bytes(60_000))
    data = long.read_bytes()
    long.write_bytes(
        data[:2] + 35 * (b"\xff\xe1\xff\xffhttp://ns.adobe.com/xmp/extension/\0" + bytes(65_498)) + data[2:]
    )
    os.utime(long, (long.stat().st_atime, put(project, "b.jpg", YESTERDAY).stat().st_mtime))
    run = project.infer_json("run")
    assert [(report["date"], report["predicted"]) for report in run["late"]] == [(str(taken), 2)]
    assert (run["predicted"], run["notices"]) == (1, [])


@pytest.mark.parametrize("state", ["never run", "run before"])
def test_a_dry_run_forecasts_what_a_run_would_register_and_registers_nothing(project, state):
    database = project.folder / "infer.db"
    if state == "run before":
        put(project, "known.jpg", YESTERDAY)
        project.infer("run")
    before = database.read_bytes() if database.exists() else None
    for number in range(5):
        put(project, f"{number}.jpg", YESTERDAY)
    put(project, "old.jpg", OLD)
    far = 23 if datetime.now(UTC).hour < 12 else 0  # from now: what was just written waits
    put(project, "today.jpg", TODAY, hour=far)
    run = project.infer_json("run", "--dry-run")
    assert (run["registered"]["added"], run["registered"]["later"], run["predicted"]) == (7, 1, 6)
    assert run["forecast"]["pending"] == 6
    assert (database.read_bytes() if database.exists() else None) == before
    assert project.infer_json("run")["registered"]["added"] == 7


def test_photos_copied_just_now_are_left_with_a_word_or_at_a_terminal_waited_for(project):
    project.infer("run")
    Image.new("RGB", (40, 30), (200, 30, 30)).save(project.photos / "a.jpg")
    said = project.infer("run", "--date", "today")
    assert "left for the next run: 1 file changed within the last 10 s" in said
    os.utime(project.photos / "a.jpg")
    command, terminal = (INFER, "run", "--date", "today", "--json"), os.openpty()
    done = subprocess.run(command, cwd=project.folder, stdout=subprocess.PIPE, stderr=terminal[1], timeout=100)
    run = json.loads(done.stdout)
    assert (run["predicted"], run["registered"]["unsettled"]) == (1, 0)


def test_the_run_of_yesterday_says_what_is_of_today(project):
    far = 23 if datetime.now(UTC).hour < 12 else 0
    put(project, "a.jpg", TODAY, hour=far)
    assert "1 new image of today. To predict them now: `infer run --date today`" in project.infer("run")
    assert project.infer_json("run", "--date", "today")["predicted"] == 1


# What a NAS, a system, a camera and other programs keep beside photos, and what [images] exclude names.
KEPT_BY_OTHERS = (
    *("@eaDir/a.jpg/SYNOPHOTO_THUMB_M.jpg", "#recycle/a.jpg", "#snapshot/GMT-1/a.jpg", "cam1/@eaDir/b.jpg"),
    *("@Recycle/a.jpg", ".@__thumb/a.jpg", "~snapshot/hourly/a.jpg", "@GMT-2026.11.20/a.jpg", "lost+found/1.jpg"),
    *("$RECYCLE.BIN/S-1/$R1.JPG", "System Volume Information/a.jpg", "__MACOSX/a.jpg", "._a.jpg", ".Trash-1000/a.jpg"),
    *("Catalog Previews.lrdata/a.jpg", "All.photoslibrary/resources/a.jpg", ".stversions/a.jpg", "appdata_x/a.png"),
    *("files_trashbin/a.jpg", "PRIVATE/M4ROOT/THMBNL/C0001T01.JPG", "GOPR1.THM", "GOPR1.LRV", "IMG_1.AAE", "IMG_1.MOV"),
    *("notes.xmp", "no suffix", "cam1/b_thumb.jpg", "cam2/tests/c.jpg"),
)


def test_a_watched_folder_and_images_add_give_one_answer_and_tell_what_they_leave_out(project, tmp_path):
    for name in ("a.jpg", "cam1/b.JPG", "cam2/c.jpg", *KEPT_BY_OTHERS):
        (project.photos / name).parent.mkdir(parents=True, exist_ok=True)
        put(project, "photo.jpg", YESTERDAY).rename(project.photos / name)
    (project.photos / "linked").symlink_to(tmp_path)
    project.set("images", exclude=["*_THUMB.jpg", "/cam2/tests/"])
    registered = project.infer_json("run")["registered"]
    told = {"@eaDir": 2, "hidden": 4, "*_THUMB.jpg": 1, "cam2/tests": 1, "links to folders": 1, ".thm": 1}
    assert (registered["added"], registered["unreadable"]) == (3, [])
    assert told.items() <= registered["other"].items()
    assert sum(registered["other"].values()) == len(KEPT_BY_OTHERS) + 1
    assert "2 @eaDir" in project.infer("run")
    watched = project.rows("SELECT location FROM infer_images ORDER BY 1")
    project.write("DELETE FROM infer_pictures")
    assert "4 hidden, 2 @eaDir" in project.infer("images", "add", "photos")
    assert project.rows("SELECT location FROM infer_images ORDER BY 1") == watched
    project.infer("images", "add", "photos/no suffix")  # what is named itself
    assert len(project.rows("SELECT 1 FROM infer_images")) == 4


def test_files_of_times_that_no_calendar_has_stop_no_command(project):
    """Some servers give the year 30828; a file system on disk may hold nothing before 1901 or after 2446."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        project.set("images", watch=[folder])
        for number, then in enumerate((910_692_730_085, -62_135_596_801, -1, 0, 1 << 40)):
            file = put(project, f"{number}.jpg", YESTERDAY)
            os.utime(shutil.move(file, folder), (then, then))
        assert project.infer_json("run", "--date", "today")["registered"]["added"] == 5
        for number in range(1, 6):
            project.infer("explain", "--image", str(number))
        for words in (("list", "--state", "missing"), ("status",), ("verify",)):
            project.infer(*words)


def test_a_folder_that_can_not_be_read_is_mailed_once(project):
    """Its path is too long here, which keeps out root too."""
    put(project, "a.jpg", YESTERDAY)
    folder = os.open(project.photos, os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=folder)
        above, folder = folder, os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(above)
    os.close(folder)
    code, text = daily(project, YESTERDAY)
    assert (code, text.count("not registered, since it can't be read")) == (0, 1)
    assert daily(project, YESTERDAY) == (0, "")
    assert "not registered, since it can't be read" in project.infer("run")


def test_a_database_whose_first_run_was_killed_before_it_had_tables_gets_them(project):
    put(project, "a.jpg", YESTERDAY)
    (project.folder / "infer.db").touch()
    assert project.infer_json("run")["predicted"] == 1


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
    assert project.infer_json("status")["notices"][0]["text"].startswith("no images for 3 days")
    (report,) = project.infer_json("report")["reports"]
    page = Path(report["file"]).read_text()
    assert report["state"] == "attention"
    assert f"No images for 3 days: {gap}" in page
    backfill = project.infer("backfill", "--from", str(YESTERDAY), "--to", str(TODAY))
    assert f"attention: no images for 3 days: {gap}" in backfill


def test_photos_ahead_of_a_clock_that_is_behind_wait_for_the_right_time(project):
    """A machine whose battery is empty, or without network when it starts: the files know better."""
    files = [put(project, f"{number}.jpg", TODAY + timedelta(days=40)) for number in range(3)]
    code, said = daily(project, YESTERDAY)
    assert (code, "this machine's clock says" in said, "is the camera" in said) == (0, True, False)
    assert project.rows("SELECT count(*) FROM infer_images") == [(0,)]
    for file in files:  # as they look once the clock is right
        os.utime(file, (time.time() - 86400,) * 2)
    assert "attention: over: this machine's clock says" in daily(project, YESTERDAY)[1]
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(3,)]
    project.write("UPDATE infer_runs SET started_at = ?", f"{TODAY + timedelta(days=40)} 02:30:00.000000")
    put(project, "later.jpg", TODAY + timedelta(days=39))
    put(project, "reset.jpg", date(2000, 1, 1))
    told = daily(project, YESTERDAY)[1]
    assert "later.jpg: set the clock" in told
    assert "reset.jpg: is the camera's clock right?" in told
    count_later = "SELECT count(*) FROM infer_images WHERE location LIKE '%later.jpg'"
    assert project.rows(count_later) == [(0,)]
    for number in range(2):  # beside which one file is that of a camera, and that run's clock was ahead
        put(project, f"usual{number}.jpg", YESTERDAY)
    assert "later.jpg: is the camera's clock right?" in daily(project, YESTERDAY)[1]
    assert project.rows(count_later) == [(1,)]


def test_photos_deleted_before_they_were_predicted_are_no_broken_ones(project):
    files = [put(project, f"{number}.jpg", YESTERDAY) for number in range(30)]
    project.infer("run", "--date", str(TODAY - timedelta(days=2)), "--lookback", "0")
    for file in files[:15]:
        file.unlink()
    nights = [project.infer_json("run")["day_state"] for _ in range(2)]
    assert [(night["state"], night["exit_code"]) for night in nights] == [("done", 0)] * 2
    [row] = [one for one in project.infer_json("status")["days"] if one["date"] == str(YESTERDAY)]
    assert (row["predicted"], row["rejected"], row["day_state"]["exit_code"]) == (15, 15, 0)


def test_what_a_fault_left_of_an_old_card_is_taken_by_a_later_run_however_long_it_takes(project):
    """Each night all of its files are refused alike, so none is rejected."""
    put(project, "fine.jpg", YESTERDAY)
    for number in range(12):
        file = put(project, f"card/{number}.jpg", OLD)
        times = file.stat().st_atime, file.stat().st_mtime
        file.write_bytes(file.read_bytes()[:300])
        os.utime(file, times)
    project.infer("run", exit_code=3)
    project.write("UPDATE infer_pictures SET queued_at = '2020-01-01 00:00:00.000000' WHERE queued_at IS NOT NULL")
    project.infer("run", exit_code=3)
    [late] = project.infer_json("run", "--max-rejected", "100%")["late"]
    assert (late["date"], late["rejected"]) == (str(OLD), 12)


def test_photos_that_come_back_are_tried_again_by_the_model_that_missed_them(project):
    for number in range(3):
        put(project, f"card/{number}.jpg", OLD)
        put(project, f"other/{number}.jpg", OLD)
    project.infer("run")
    card, away = project.photos / "card", project.folder / "away"
    shutil.copytree(project.folder / "models" / "colors", project.folder / "models" / "second")
    second = project.folder / "models" / "second"
    for manifest in second.rglob("manifest.json"):
        manifest.write_text(manifest.read_text().replace('"name": "colors"', '"name": "second"'))
    card.rename(away)
    project.infer("backfill", "--from", str(OLD), "--to", str(OLD), "--model", "second", "--max-rejected", "100%")
    away.rename(card)
    project.write("UPDATE infer_pictures SET queued_at = NULL")  # that of the first walk has ended
    project.infer("run")
    of_second = "SELECT count(*) FROM infer_predictions r JOIN infer_models m ON m.id = r.model_id"
    assert project.rows(f"{of_second} WHERE m.name = 'second'") == [(6,)]


def test_another_time_zone_leaves_photos_on_the_day_that_they_were_taken_on(project):
    """Those whose clock states its zone, or that have the time of their file, stay where they are."""
    project.set("images", day="taken")
    day = TODAY - timedelta(days=9)
    for number, (hour, offset) in enumerate([(12, None), (23, None), (23, "+00:00")]):
        put(project, f"{number}.jpg", YESTERDAY, exif=stating(f"{day:%Y:%m:%d} {hour}:30:00", offset))
    put(project, "file.jpg", YESTERDAY)
    put(project, "no year.jpg", YESTERDAY, exif=stating("0001:01:01 00:00:00"))
    project.infer("run")
    times = "SELECT added_at FROM infer_pictures ORDER BY location"
    before = [datetime.fromisoformat(at) for (at,) in project.rows(times)]
    project.set("run", time_zone="Europe/Berlin")
    project.infer("run")
    after = [datetime.fromisoformat(at) for (at,) in project.rows(times)]
    offset = datetime(day.year, day.month, day.day, 12, tzinfo=ZoneInfo("Europe/Berlin")).utcoffset()
    assert [was - at for was, at in zip(before, after, strict=True)] == [offset, offset, *[timedelta(0)] * 3]
    [row] = [one for one in project.infer_json("status", "--days", "12")["days"] if one["date"] == str(day)]
    assert row["eligible"] == 2


@pytest.mark.parametrize("is_read", [True, False], ids=["another picture for a while", "rejected unread"])
def test_a_file_that_has_its_former_bytes_again_keeps_its_time_and_event(project, is_read):
    project.set("images", day="taken", max_bytes=10_000_000 if is_read else 20)
    project.set("source", camera="folder:1")
    project.set("events", gap="60s")
    file = put(project, "camera/0.jpg", YESTERDAY, exif=stating(f"{YESTERDAY:%Y:%m:%d} 10:00:00"))
    project.infer("run", "--max-rejected", "100%")
    stored = "SELECT taken_at, event FROM infer_pictures"
    before, data = project.rows(stored), file.read_bytes()
    if is_read:
        file.write_bytes(data[:200])
        project.infer("run", "--max-rejected", "100%")
    file.write_bytes(data)
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 3600))
    project.infer("run", "--max-rejected", "100%")
    assert project.rows(stored) == before == [(f"{YESTERDAY} 10:00:00.000000", 1)]
