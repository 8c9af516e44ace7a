"""Storage that stops answering holds workers, which are left behind, and never the run."""

import json

import pytest

from tests.support.projects import DATE
from tests.support.stalled_folder import stalled

pytestmark = pytest.mark.slow


def test_a_run_over_storage_that_does_not_answer_ends_and_rejects_nothing_for_good(project):
    """A rejected file is looked at again before the run, three new ones are read by it: each look hangs."""
    project.add_photos(6)
    cut_off = project.photos / "0000.jpg"
    cut_off.write_bytes(cut_off.read_bytes()[:100])
    project.infer("run", "--date", DATE)
    project.write("DELETE FROM infer_predictions WHERE picture IN (2, 3, 4)")
    with stalled(project.photos):
        report = project.infer_json("run", "--date", DATE, "--workers", "2", INFER_IMAGES__TIMEOUT_S="2")
    assert report["day"] == {"eligible": 6, "predicted": 2, "rejected": 4, "pending": 0}
    assert report["reasons"] == {"read_timeout": 3}
    assert "were not checked for changes: their storage does not answer" in project.errors
    assert "left running" in project.errors
    project.infer("run", "--date", DATE)
    assert project.rows("SELECT reason FROM infer_rejections") == [("truncated",)]


@pytest.mark.usefixtures("watching")
@pytest.mark.parametrize("is_signalled", [True, False])
def test_a_walk_over_a_watched_folder_that_hangs_half_way_ends_the_run(project, is_signalled):
    (project.photos / "below").mkdir()
    with stalled(project.photos / "below"):
        run = project.start("run", "--json")
        if is_signalled:
            assert "begins" in run.stderr.readline()
            run.terminate()
        out, _ = run.communicate(timeout=100)
    assert run.returncode == (143 if is_signalled else 14)
    assert is_signalled or f"{project.photos} does not answer" in json.loads(out)["error"]
