"""A stage is slowed on purpose: the run names it, and the limit it prints is the rate it reaches.

Through the real command, processes and database.
"""

import pytest
import torch
from torch import nn

from infer_app.base.telemetry.bottleneck import OTHERS
from tests.support.projects import DATE, PLAIN, found_first

pytestmark = pytest.mark.alone
PHOTO_S = 0.015  # how long the slow storage takes to open a photo, as one far away: without a core
NUM_PHOTOS = 120

SLOW_OPEN = f"""
import os, time
open_file = os.open
def open_slowly(path, *more, **given):
    if str(path).endswith(".jpg"):
        time.sleep({PHOTO_S})
    return open_file(path, *more, **given)
os.open = open_slowly
"""
BURN = """CREATE TRIGGER burn AFTER INSERT ON infer_predictions BEGIN
    SELECT max(i) FROM (
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i FROM n
    );
END"""


class Dear(nn.Module):
    """Channel means, and half a billion multiplications that change nothing."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 96, 3, padding=1), *(nn.Conv2d(96, 96, 3, padding=1) for _ in range(4))
        )

    def forward(self, pixels):
        return 8.0 * pixels.mean((2, 3)) + 1e-9 * self.layers(pixels).mean((1, 2, 3)).unsqueeze(1)


@pytest.fixture
def project(make_project):
    """A day of NUM_PHOTOS."""
    project = make_project("throughput")
    project.add_photos(NUM_PHOTOS)
    return project


def run(project, *more, exit_code=0, model="colors", **environ):
    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", model, *more)
    return project.infer_json(*command, exit_code=exit_code, **{"INFER_RUN__CHUNK_SIZE": "4"} | environ)


def check_rate(report, foretold=None):
    """Check that the limit, of the run or of the dry run before it, is near the rate: within a factor of two.

    Unless the run says that other programs took the cores. Exact figures are the unit tests'.
    """
    if report["bottleneck"] == OTHERS:
        return
    assert 0.5 < report["share_of_limit"] < 2
    if foretold:
        assert 0.5 < report["steady_images_per_second"] / foretold["limit_images_per_second"] < 2


def foretold_and_run(project, environ):
    """Return the reports of a dry run and of the run after it."""
    return run(project, "--dry-run", "--limit", "60", **environ), run(project, **environ)


def test_a_slow_storage_limits_and_its_rate_is_foretold(project, tmp_path):
    dry, report = foretold_and_run(project, found_first(tmp_path / "slow", sitecustomize=SLOW_OPEN))
    assert (dry["limited_by"], report["limited_by"]) == ("storage", "storage")
    assert report["waits"]["read"] >= 0.9 * 1e3 * PHOTO_S  # without the CPU time of the read
    assert report["limits"]["workers"] < report["limits"]["cores"]
    check_rate(report, dry)


def test_a_slow_model_limits(project):
    torch.manual_seed(0)
    torch.jit.trace(Dear(), torch.zeros(2, 3, 48, 48)).save(str(project.folder / "dear.ts"))
    project.infer("model", "build", "dear.ts", "--name", "dear", *PLAIN, "--size", "48")
    report = run(project, model="dear")
    assert report["limited_by"] == "model"
    assert report["limit_images_per_second"] == min(report["limits"].values())
    assert report["stages"]["model"] > 5 * report["stages"]["decode"]
    check_rate(report)


def test_a_database_that_takes_a_core_limits(project):
    """A trigger of the user's: one coordinator, so the second core doesn't help. A dry run sees it too."""
    project.write(BURN)
    dry, report = foretold_and_run(project, {})
    assert (dry["limited_by"], report["limited_by"]) == ("database", "database")
    assert report["stages"]["write"] > 2 * report["waits"]["write"]
    assert dry["stages"]["write"] > 2 * dry["waits"]["write"]
    check_rate(report)


def test_a_run_that_is_cut_short_says_how_long_the_rest_takes(project):
    forecast = run(project, "--limit", "40")["forecast"]
    assert (forecast["pending"], forecast["seconds"] > 0) == (NUM_PHOTOS - 40, True)
    assert run(project)["forecast"] is None
