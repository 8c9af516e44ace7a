import fcntl
import logging
import os
import threading
import time
from pathlib import Path

import pytest

from infer_app.cli.run import notifications as night_module
from infer_app.cli.run.notifications import RunSession, notifying
from infer_app.errors import DatabaseUnavailable, Interrupted
from infer_app.settings.load import load_settings
from infer_app.telemetry.metrics import LAST_SUCCESS, ModelOutcome, read_samples

SUCCESS = [ModelOutcome("a", 0)]


@pytest.fixture
def loaded(tmp_path):
    (tmp_path / "infer.toml").write_text('[metrics]\ntextfile = "infer.prom"\n')
    return load_settings(tmp_path / "infer.toml")


def written(loaded):
    samples = read_samples((loaded.folder / "infer.prom").read_text())
    return {name: value for (name, _), value in samples.items()}


def test_an_answer_that_can_not_be_printed_is_an_answer(loaded):
    with pytest.raises(BrokenPipeError), notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
        raise BrokenPipeError
    assert written(loaded)["infer_last_run_exit_code"] == 0


def test_the_collector_may_read_the_metrics_whatever_the_umask(loaded, umask):
    """It runs as another user."""
    umask(0o077)
    for mode in (0o644, 0o640):  # which somebody has changed meanwhile
        with notifying(loaded, notify=True) as session:
            session.end({}, SUCCESS, 0)
        assert (loaded.folder / "infer.prom").stat().st_mode & 0o777 == mode
        (loaded.folder / "infer.prom").chmod(0o640)


@pytest.mark.parametrize(
    ("error", "exit_code", "told"),
    [
        (DatabaseUnavailable("no database", "hint"), 10, "no database"),
        (Interrupted(15), 143, "ended by signal 15"),
        (SystemExit(143), 143, "SystemExit"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt"),
        (ValueError("canary"), 1, "ValueError"),
    ],
)
def test_an_error_is_what_is_told(loaded, error, exit_code, told):
    with pytest.raises(type(error)), notifying(loaded, notify=True) as session:
        session.models = ["a"]
        raise error
    assert session.result["error"] == told
    assert "canary" not in session.line
    assert written(loaded)["infer_model_exit_code"] == exit_code


def test_of_two_that_end_together_neither_loses_what_the_other_writes(loaded, monkeypatch):
    monkeypatch.setattr(night_module, "LOCK_S", 60.0)
    folder = os.open(loaded.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    began = time.monotonic()
    threading.Timer(0.4, os.close, [folder]).start()
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    assert 0.3 < time.monotonic() - began < 60
    assert LAST_SUCCESS in written(loaded)


def test_a_lock_that_stays_held_costs_a_second(loaded):
    folder = os.open(loaded.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    os.close(folder)
    assert LAST_SUCCESS in written(loaded)


def test_a_file_that_can_not_be_written_is_a_warning(loaded, caplog):
    (loaded.folder / "infer.prom").mkdir()
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    assert caplog.messages == [f"no metrics in {loaded.folder}/infer.prom: Is a directory"]


def test_not_even_a_bug_in_telling_changes_how_a_run_ends(loaded, caplog, monkeypatch):
    monkeypatch.setattr(night_module, "render_metrics", lambda *_: 1 / 0)
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    assert caplog.messages == ["notifications failed"]


def test_the_last_line_says_it_all_and_of_a_failure_the_level_too(caplog):
    caplog.set_level(logging.INFO, "infer_app")
    for exit_code in (0, 12):
        one = RunSession()
        one.end({}, [ModelOutcome("a", exit_code)], exit_code)
        one.log_end()
    first, second = caplog.records
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    assert second.message.startswith("exit code 12 after ")
    assert second.message.endswith(": a was not run")


def test_the_module_leaves_no_temporary_file(loaded):
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    assert sorted(path.name for path in Path(loaded.folder).iterdir()) == ["infer.prom", "infer.toml"]
