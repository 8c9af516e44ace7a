import fcntl
import os
import threading
import time

import pytest

from infer_app.base.errors import DatabaseUnavailable, Interrupted
from infer_app.base.run_report import ModelOutcome
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.metrics import LAST_SUCCESS, read_samples
from infer_app.cli.run.notifications import LOCK_S, notifying

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


@pytest.mark.parametrize("held_s", [0.4, 60.0], ids=["waited for", "given up"])
def test_the_lock_of_another_that_ends_is_waited_for_and_costs_no_metrics(loaded, held_s):
    folder = os.open(loaded.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    release = threading.Timer(held_s, fcntl.flock, [folder, fcntl.LOCK_UN])
    release.start()
    began = time.monotonic()
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    release.cancel()
    os.close(folder)
    assert min(LOCK_S, held_s) - 0.1 < time.monotonic() - began < 60
    assert LAST_SUCCESS in written(loaded)
    assert sorted(path.name for path in loaded.folder.iterdir()) == ["infer.prom", "infer.toml"]


def test_neither_a_file_that_can_not_be_written_nor_a_bug_in_telling_changes_how_a_run_ends(loaded, caplog):
    (loaded.folder / "infer.prom").mkdir()
    with notifying(loaded, notify=True) as session:
        session.end({}, SUCCESS, 0)
    (loaded.folder / "infer.toml").write_text('[webhook]\nurl = "http://127.0.0.1:9"\n')
    with notifying(load_settings(loaded.path), notify=True) as session:
        session.end({"no JSON": object()}, SUCCESS, 0)
    assert caplog.messages == [f"no metrics in {loaded.folder}/infer.prom: Is a directory", "notifications failed"]
