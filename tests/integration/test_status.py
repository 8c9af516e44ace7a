"""`infer status`: one word for each day, by its rows and its last run."""

import os

import pytest

from infer_app.machine import process_identity

RUN = (
    "INSERT INTO infer_runs (id, day, time_zone, interval_start, interval_end, model, model_id, variant, executor,"
    " device, host, process, versions, state, started_at, heartbeat_at, selected, predicted, rejected, exit_code)"
    " SELECT 'later', day, time_zone, interval_start, interval_end, model, model_id, variant, executor, device, host,"
    " ?, versions, ?, '2099-01-01 00:00:00.000000', heartbeat_at, 0, 0, 0, ? FROM infer_runs"
)


@pytest.fixture
def night(project):
    project.add_photos(6, "yesterday")
    project.infer("run", "--date", "yesterday", "--lookback", "0", "--variant", "cpu-torchscript")
    return project


def state(project):
    (day,) = project.infer_json("status", "--days", "2")["days"]
    assert day["state"] in project.infer("status", "--days", "2")
    return day["state"]


def test_the_word_follows_the_rows_and_the_last_run(night):
    assert state(night) == "done"
    night.write(RUN, "1@ended@x", "failed", 10)
    assert state(night) == "done"  # whatever failed, every image has its result
    night.write("DELETE FROM infer_predictions WHERE image_id = '1'")
    assert state(night) == "failed"
    night.write("UPDATE infer_runs SET state = 'done', exit_code = 75 WHERE id = 'later'")
    assert state(night) == "pending"
    living = process_identity(os.getpid())
    night.write("UPDATE infer_runs SET state = 'running', process = ? WHERE id = 'later'", living)
    assert state(night) == "running"
    night.write("UPDATE infer_runs SET process = ? WHERE id = 'later'", living.replace("@", "@1", 1))
    assert state(night) == "failed"  # its process died without a word
    night.write("DELETE FROM infer_runs")
    assert state(night) == "never run"


def test_colours_for_a_terminal_and_symbols_where_they_can_be_shown(night):
    plain = night.infer("status", "--days", "2", PYTHONIOENCODING="ascii")
    assert ("done" in plain, "✓" in plain, "\x1b[" in plain) == (True, False, False)
    assert "\x1b[32m✓ done" in night.infer("status", "--days", "2", FORCE_COLOR="1", PYTHONIOENCODING="utf-8")
