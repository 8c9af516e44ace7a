"""A project that was moved or copied goes on with what is known of its photos."""

import subprocess
from datetime import timedelta

import pytest

from tests.support.projects import Project
from tests.support.watched import TODAY, changed, daily, put

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("watching")]
SIX_DAYS = [TODAY - timedelta(days=n) for n in range(6, 0, -1)]


def fill_six_days(project: Project) -> None:
    for number in range(300):
        put(project, f"{SIX_DAYS[number % 6]}/{number}.jpg", SIX_DAYS[number % 6])


def known(project: Project) -> list[tuple[object, ...]]:
    """What must stay one: rows of images and of predictions, and what the runs have counted."""
    counts = project.rows("SELECT count(*), count(DISTINCT location) FROM infer_images")
    counts += project.rows("SELECT count(*) FROM infer_predictions")
    return counts + project.rows("SELECT sum(predicted) FROM infer_runs")


@pytest.mark.parametrize(("how", "is_mapped"), [("mv", True), ("cp -a", False), ("mounted elsewhere", True)])
def test_a_project_that_was_moved_or_copied_is_the_same_project(project, tmp_path, how, is_mapped):
    if is_mapped:
        project.set("images", map={"/srv/photos": str(project.photos)})
    fill_six_days(project)
    assert daily(project, SIX_DAYS[-1]) == (0, "")
    assert known(project) == [(300, 300), (300,), (300,)]
    project.write("UPDATE infer_pictures SET modified = NULL WHERE id % 2")  # as rows of early releases
    before = project.results()
    if how == "mounted elsewhere":
        project.photos = project.photos.rename(tmp_path / "media")
        project.set("images", watch=[str(project.photos)])
    else:
        subprocess.run([*how.split(), str(project.folder), str(tmp_path / "elsewhere")], check=True)
        project.folder, project.photos = tmp_path / "elsewhere", tmp_path / "elsewhere/photos"
    put(project, "new.jpg", SIX_DAYS[-1])
    refused = project.infer_json("run", "--dry-run", exit_code=2)
    assert (f"below {project.photos}/" in refused["error"], "`infer run`" in refused["hint"]) == (True, True)
    assert is_mapped or refused["hint"] in project.infer("doctor")
    code, told = daily(project, SIX_DAYS[-1])
    former = "/srv/photos" if is_mapped else str(tmp_path / "project/photos")
    assert (code, f"attention: 300 images known below {former}/ are now below {project.photos}/" in told) == (0, True)
    assert daily(project, SIX_DAYS[-1]) == (0, "")
    assert known(project) == [(301, 301), (301,), (301,)]
    assert [row for row in project.results() if row[0] != "301"] == before
    below = f"substr(location, 1, {len(str(project.photos)) + 1}) = '{project.photos}/'"
    assert project.rows(f"SELECT count(*) FROM infer_images WHERE {below}") == [(301,)]
    assert changed(project) == []
    project.infer("verify", "--date", str(SIX_DAYS[-1]))


def test_photos_of_a_moved_project_that_are_added_by_hand_are_known(project, tmp_path):
    fill_six_days(project)
    assert daily(project, SIX_DAYS[-1]) == (0, "")
    moved = project.folder.rename(tmp_path / "elsewhere")
    project.folder, project.photos = moved, moved / "photos"
    told = project.infer("images", "add", str(project.photos))
    assert f"300 images known below {tmp_path}/project/photos/ are now below {project.photos}/" in told
    assert "0 images added for today, 300 known already" in told
    assert "attention: 300 images known below" in daily(project, SIX_DAYS[-1])[1]
    assert daily(project, SIX_DAYS[-1]) == (0, "")
    assert known(project) == [(300, 300), (300,), (300,)]
