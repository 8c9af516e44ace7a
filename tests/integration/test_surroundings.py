"""What identifies a picture depends on no surroundings of the process: under cron it is what it is at the terminal."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.support.projects import INFER
from tests.support.watched import DAILY

LATE = 1763681400  # seconds since the epoch: half past eleven in the evening of a day in UTC, the next day in Tokyo
RUN = "{infer} run"
SURROUNDINGS = {  # what a shell does in the project's folder
    "terminal": RUN,
    "C locale": f"LC_ALL=C {RUN}",
    "cron": f"env -i PATH=/usr/bin:/bin {RUN}",
    "ASCII": f"LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii {RUN}",
    "Latin-1": f"LOCPATH={{folder}} LC_ALL=latin1 {RUN}",
    "another home": f"HOME=/nowhere {RUN}",
    "another zone": f"TZ=Asia/Tokyo {RUN}",
    "umask": f"umask 077; {RUN}",
    "absolute": f"cd /; {RUN} --config {{folder}}/infer.toml",
    "relative": f"cd photos; {RUN} --config ../infer.toml",
    "through a link": f"cd ../link; {RUN}",
    "absolute link": f"cd /; {RUN} --config {{folder}}/../link/infer.toml",
    "variable": f"INFER_CONFIG=../link/photos/../infer.toml {RUN}",
    "daily job": "cd /; DAILY_COMMAND={infer} {daily} {folder}/../link",
}


@pytest.mark.slow
def test_a_picture_is_the_same_in_whatever_surroundings_runs_are_made(project):
    """Each run has one new photo, which it registers under its own name and day, and finds the others as they were."""
    (project.folder.parent / "link").symlink_to(project.folder.name)
    if shutil.which("localedef") and Path("/usr/share/i18n/charmaps/ISO-8859-1.gz").exists():
        made = ["localedef", "-i", "de_DE", "-f", "ISO-8859-1", str(project.folder / "latin1")]
        subprocess.run(made, capture_output=True)
    project.set("images", watch=["photos"])
    project.set("run", lookback=0, workers=1)
    (project.photos / "süd").mkdir()
    told, expected, before = {}, [], []
    for number, (name, command) in enumerate(SURROUNDINGS.items(), 1):
        file = project.photos / f"süd/été {number:02}.jpg"
        Image.new("RGB", (40, 30), (200, number, 30)).save(file)
        os.utime(file, (LATE, LATE))
        shell = command.format(infer=INFER, daily=DAILY, folder=project.folder)
        run = subprocess.run(
            ["bash", "-c", shell], cwd=project.folder, capture_output=True, text=True, errors="replace"
        )
        rows = project.rows(
            "SELECT i.id, i.location, added_at, label FROM infer_images i JOIN infer_predictions ON i.id = picture"
        )
        told[name] = run.returncode, "attention" in run.stdout + run.stderr, [row for row in before if row not in rows]
        expected.append((str(file), "2025-11-20"))
        before = rows
    assert told == dict.fromkeys(SURROUNDINGS, (0, False, []))
    assert sorted((location, at[:10]) for _, location, at, _ in before) == expected
