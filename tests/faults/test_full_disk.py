"""No room for results: the run ends and says so, and after there is room again the next one completes the day."""

import pytest

from tests.faults.conftest import on
from tests.faults.project_run import ProjectRun, photos


@pytest.mark.always
@on("sqlite", of=["sqlite"])
@pytest.mark.timeout(200)
def test_a_file_that_may_not_grow_ends_the_run_and_the_next_completes(night):
    night.add(photos(300))
    pages = night.rows("PRAGMA page_count")[0][0]
    ended = night.run(max_pages=pages + 8)
    assert ended.exit_code == 74, ended.err
    assert "full" in ended.answer["error"]
    assert "Traceback" not in ended.err
    night.check(ended)
    assert set(night.results()) < set(night.expected())
    assert night.rows("SELECT state, exit_code FROM infer_runs") in ([("failed", 74)], [("running", None)])
    night.finish()


@pytest.mark.parametrize("url", [""])
@pytest.mark.parametrize("room", [pytest.param(0, marks=pytest.mark.full), 200_000])
@pytest.mark.timeout(200)
def test_a_disk_that_is_full_ends_the_run_and_the_next_completes(small_disk, models, url, room):
    """Results, temporary files and all; at once, or after some chunks."""
    night = ProjectRun(small_disk / "night", f"sqlite:///{small_disk / 'infer.db'}", models)
    night.add(photos(600))
    filler = small_disk / "filler"
    fill(filler)
    with filler.open("r+b") as file:
        file.truncate(max(0, filler.stat().st_size - room))
    ended = night.run()
    assert ended.exit_code in (2, 74), ended.err
    assert "Traceback" not in ended.err
    filler.unlink()
    night.check(ended)
    before = set(night.results())
    night.finish()
    assert before < set(night.expected())


def fill(path):
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
