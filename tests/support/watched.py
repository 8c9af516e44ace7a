"""Photos that come into a watched folder, and the job of each day."""

import os
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from PIL import ExifTags, Image

from tests.support.projects import INFER, Project

DAILY = Path(__file__).parents[2] / "jobs" / "daily.sh"
CRON_ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
OLD = TODAY - timedelta(days=40)


def put(project: Project, name: str, day: date, hour: int = 12, **options: object) -> Path:
    """Save a photo whose file is of this day."""
    file = project.photos / name
    file.parent.mkdir(exist_ok=True)
    Image.new("RGB", (40, 30), (200, 30, 30)).save(file, **options)
    at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC).timestamp()
    os.utime(file, (at, at))
    return file


def stating(taken: str, offset: str | None = None, tag: int = ExifTags.Base.DateTimeOriginal) -> Image.Exif:
    """What a camera writes of the time at which a photo was taken, and of its clock's offset from UTC."""
    exif = Image.Exif()
    details = exif.get_ifd(ExifTags.IFD.Exif)
    details[tag] = taken
    if offset:
        details[ExifTags.Base.OffsetTimeOriginal] = offset
    return exif


def run_daily(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(DAILY), *map(str, arguments)]
    return subprocess.run(command, env=CRON_ENVIRONMENT | environ, capture_output=True, text=True, timeout=100)


def daily(project: Project, day: date) -> tuple[int, str]:
    """The daily job as on the morning after `day`."""
    job = run_daily(project.folder, "--date", day, "--workers", "1", DAILY_COMMAND=str(INFER))
    assert job.stderr == ""
    return job.returncode, job.stdout


def changed(project: Project) -> list[tuple[str, str]]:
    listed = project.list_images("changed") + project.list_images("missing")
    return [(Path(one["location"]).name, one["state"]) for one in listed]


def replace_photo(file: Path, color: tuple[int, int, int], seconds: float = 60.0) -> None:
    """Another picture in the same file; its time is `seconds` later, but long ago for a run."""
    at = file.stat().st_mtime + seconds
    Image.new("RGB", (50, 30), color).save(file)
    os.utime(file, (at, at))
