"""The laws of ARCHITECTURE.md, each on the real command with a real database and a real model."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from infer_app.run.flow.failure_budget import FEW_FAILURES
from infer_app.run.flow.outage_guard import MAX_FAILED_READS
from tests.support import projects
from tests.support.projects import DATE, Project
from tests.support.ray_clusters import nodes_of


def run(project: Project, *more: str, exit_code: int = 0, **environ: str):
    return project.infer_json("run", "--date", DATE, "--workers", "2", *more, exit_code=exit_code, **environ)


@pytest.fixture(scope="module")
def one_node():
    with nodes_of(4) as nodes:
        yield nodes


RAY = pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.full])
# Which images a run selects, it decides before an executor has any.
SELECTION = pytest.mark.parametrize(
    "_executor", ["cpu", pytest.param("cuda", marks=pytest.mark.full), RAY], indirect=True, scope="module"
)


@pytest.fixture(params=["cpu", "cuda", RAY], autouse=True, scope="module")
def _executor(request):
    """Each law holds for each executor; `cuda` with its ring, and plain copies to the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projects, "EVERYWHERE", {"INFER_RUN__EXECUTOR": request.param})
        if request.param == "ray":
            patch.setitem(projects.EVERYWHERE, "INFER_RAY__ADDRESS", request.getfixturevalue("one_node").address)
        yield


@SELECTION
def test_no_images_is_a_report_of_zeros(project):
    project.add_photos(3, date="2026-11-18")
    report = run(project, "--lookback", "0")
    assert (report["selected"], report["exit_code"]) == (0, 0)
    assert report["day"] == {"eligible": 0, "predicted": 0, "rejected": 0, "pending": 0}
    assert "nearest day that has any is 2026-11-18" in project.infer("run", "--date", DATE, "--lookback", "0")


def test_all_broken_is_rows_in_rejections_and_no_prediction_once_it_is_allowed(project):
    project.add_photos(0)
    for i in range(11):
        (project.photos / f"{i}.jpg").write_bytes(b"")
    project.add("photos")
    report = run(project, exit_code=3)
    assert (report["rejected"], report["day"]["pending"]) == (0, 11)
    assert "11 of 11 images are empty, which may be one fault" in report["stopped"]
    assert re.search(rf"the last: {project.photos}/\d+\.jpg: ", report["stopped"])
    for state in ("pending", "rejected"):
        assert f"exit code 3: {report['stopped']}" in project.infer("list", "--state", state, "--date", DATE)
    report = run(project, "--max-rejected", "100%")
    assert report["reasons"] == {"empty": 11}
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(0,)]
    assert project.rows("SELECT DISTINCT reason, stage, size, attempts FROM infer_rejections") == [
        ("empty", "read", 0, 1)
    ]


@pytest.mark.always
def test_a_broken_neighbour_changes_nothing(make_project):
    whole, broken = make_project("whole"), make_project("broken")
    whole.add_photos(20)
    broken.add_photos(20)
    for name in ("0003.jpg", "0008.jpg", "0009.jpg"):
        file = broken.photos / name
        file.write_bytes(file.read_bytes()[:200])
    run(whole)
    report = run(broken)
    assert report["reasons"] == {"truncated": 3}
    expected = [row for row in whole.results() if row[0] not in ("4", "9", "10")]
    assert [row for row in broken.results() if row[2] != "truncated"] == expected


def test_a_second_run_changes_nothing_and_says_so(project):
    project.add_photos(10)
    run(project)
    before = project.results(), project.rows("SELECT picture, created_at, run_id FROM infer_predictions")
    assert "nothing new" in project.infer("run", "--date", DATE)
    assert (project.results(), project.rows("SELECT picture, created_at, run_id FROM infer_predictions")) == before


@pytest.mark.parametrize("workers", ["1", "4"])
def test_rows_belong_to_their_images_whatever_the_workers_and_the_order(project, workers):
    """Names are shuffled against ids; the content is what decides the label."""
    colors = {}
    for i in sorted(range(40), key=lambda i: hashlib.sha256(str(i).encode()).digest()):
        pixel = tuple(230 if channel == i % 3 else 10 for channel in range(3))
        Image.new("RGB", (20, 20), pixel).save(project.photos / f"x{i}.png")
        colors[f"x{i}.png"] = ("red", "green", "blue")[i % 3]
        if i % 5 == 0:
            project.add(f"photos/x{i}.png")
    project.add("photos")
    project.infer("run", "--date", DATE, "--workers", workers)
    rows = project.rows("SELECT i.location, p.label FROM infer_predictions p JOIN infer_images i ON i.id = p.picture")
    assert {location.rsplit("/", 1)[1]: label for location, label in rows} == colors


@pytest.mark.always
def test_more_broken_than_the_budget_is_exit_3_and_what_was_written_stays(project):
    project.add_photos(6)
    (project.photos / "0001.jpg").write_text("no photo")
    report = run(project, "--max-rejected", "0", exit_code=3)
    assert (report["exit_code"], report["predicted"], report["reasons"]) == (3, 5, {"unsupported_format": 1})
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(5,)]


@SELECTION
def test_missing_files_that_are_tried_again_are_no_more_of_their_day_than_at_first(project):
    project.add_photos(240)
    for number in range(FEW_FAILURES + 1):
        (project.photos / f"{number:04}.jpg").unlink()
    for _ in range(2):
        assert run(project)["reasons"] == {"not_found": FEW_FAILURES + 1}


def test_a_dry_run_samples_the_look_back_too_and_leaves_every_file_as_it_was(project):
    """Its rehearsal is elsewhere, and gone afterwards."""
    project.add_photos(3)
    project.add_photos(30, date="2026-11-19")
    before = {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()}
    temporary = project.folder.parent / "tmp"
    temporary.mkdir()
    report = run(project, "--dry-run", TMPDIR=str(temporary))
    assert (report["predicted"], report["forecast"]["pending"]) == (30, 30)
    assert (report["stages"]["decode"] > 0, report["stages"]["write"] > 0) == (True, True)
    assert {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()} == before
    assert list(temporary.iterdir()) == []


def test_a_prediction_deletes_its_rejection_once_the_file_is_mended(project):
    project.add_photos(3)
    good = (project.photos / "0000.jpg").read_bytes()
    (project.photos / "0000.jpg").write_bytes(good[:-300])
    assert run(project)["reasons"] == {"truncated": 1}
    assert run(project)["selected"] == 0  # unchanged: not tried again
    (project.photos / "0000.jpg").write_bytes(good)
    assert run(project)["day"] == {"eligible": 3, "predicted": 3, "rejected": 0, "pending": 0}
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]


@SELECTION
def test_late_images_are_found_by_the_look_back(project):
    project.add_photos(2)
    run(project)
    project.add_photos(5, date="2026-11-18")
    report = run(project)
    assert [day["selected"] for day in report["lookback"]] == [0, 3, 0]


@SELECTION
def test_when_the_root_is_gone_nothing_is_rejected(project):
    project.add_photos(5)
    project.photos.rename(project.folder / "unmounted")
    error = run(project, exit_code=14)
    assert error["exit_code"] == 14
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]
    assert project.rows("SELECT state, exit_code FROM infer_runs WHERE day = '2026-11-20'") == [("failed", 14)]


@SELECTION
def test_photos_that_were_deleted_on_purpose_stop_no_day(project):
    """A whole session, in a folder of its own: photos of the other days show that the storage is there."""
    project.add_photos(3)
    session = project.photos / "session"
    session.mkdir()
    for number in range(MAX_FAILED_READS + 10):
        (session / f"{number}.jpg").touch()
    project.add("photos/session", date="2026-11-19")
    shutil.rmtree(session)
    report = run(project, exit_code=3)
    assert report["day"]["predicted"] == 3
    deleted = report["lookback"][-1]
    assert (deleted["reasons"], deleted["day"]["pending"]) == ({"not_found": MAX_FAILED_READS + 10}, 0)


@SELECTION
@pytest.mark.parametrize("command", [("run", "--date", DATE), ("backfill", "--from", "2026-11-17", "--to", DATE)])
def test_a_storage_that_is_gone_leaves_out_the_days_that_lie_there(project, command):
    away = project.folder / "away"
    away.mkdir()
    shutil.copy(Path(__file__), away / "1.jpg")
    project.add("away", date="2026-11-19")
    project.add_photos(3)
    shutil.rmtree(away)
    report = project.infer_json(*command, exit_code=14, INFER_IMAGES__ROOTS=f"{project.photos}:{away}")
    assert (report["predicted"], report["exit_code"]) == (3, 14)
    assert "2026-11-19 left out" in project.errors
    assert project.rows("SELECT count(*) FROM infer_rejections") == [(0,)]
