"""Results of second networks are the same whether their detector runs with them or before them, and after a kill."""

import os
import signal
import time

import pytest
from sqlalchemy import delete

from infer_app.database.engine.connect import Database
from infer_app.database.results.schema import object_predictions, objects, predictions, rejections, runs
from tests.support.patches import NAMES, add_pictures, build_all, check_whole, rows_of
from tests.support.projects import DATE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
NUM_PICTURES = 60


@pytest.fixture(scope="session")
def patch_models(tmp_path_factory):
    return build_all(tmp_path_factory.mktemp("patch-models"))


@pytest.fixture
def day(project, patch_models):
    """Pictures with up to four objects, three of them broken."""
    project.use_models(patch_models)
    add_pictures(project, NUM_PICTURES)
    for number, size in ((7, 0), (30, 200), (58, 1)):
        file = project.photos / f"{number:03}.png"
        file.write_bytes(file.read_bytes()[:size])
    return project


def command(names):
    named = [word for name in names for word in ("--model", name)]
    return ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--max-rejected", "100%", "--json", *named)


def run(day, *names):
    day.infer(*command(names), INFER_RUN__CHUNK_SIZE="4")


def kill(day, names, seeded):
    """Kill a run of these models in the middle."""
    before = sum(map(len, rows_of(day).values()))
    started = day.start(*command(names), INFER_RUN__CHUNK_SIZE="4")
    day.wait_for_results(started, day.count_results() + seeded.randrange(1, NUM_PICTURES // 2))
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    time.sleep(0.5)  # the server may still commit what it was given
    rows = rows_of(day)
    check_whole(rows)
    return sum(map(len, rows.values())) - before


def reset(day):
    with Database(day.url) as database, database.write() as connection:
        for table in (object_predictions, objects, predictions, rejections, runs):
            connection.execute(delete(table))


def test_rows_are_the_same_in_one_run_in_three_and_after_kills(day, seeded):
    run(day, *NAMES)
    together = rows_of(day)
    check_whole(together)
    assert [len(together[table]) for table in ("infer_predictions", "infer_rejections")] == [57 * 3, 3 * 3]
    reset(day)
    for name in NAMES:
        run(day, name)
    assert rows_of(day) == together
    for before, names in (((), NAMES), (("cells",), ("species", "vectors")), ((), ("species",))):
        reset(day)
        if before:
            run(day, *before)
        assert kill(day, names, seeded) > 0
        run(day, *NAMES)
        assert rows_of(day) == together
