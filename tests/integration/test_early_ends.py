"""The exit code of a run that a time limit or a signal has ended early is the most severe of all that happened."""

import json
import os
import signal
from itertools import count

import pytest

from infer_app.cli.commands.run_commands import RunOptions
from infer_app.cli.run.run import run
from infer_app.run import run_days
from infer_app.run.stop import Stop
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, build_model

pytestmark = pytest.mark.usefixtures("logging_as_it_was")


@pytest.fixture
def here(project, monkeypatch):
    """The project, whose run is called in this process: only here is it known how far it is."""
    monkeypatch.chdir(project.folder)
    project.add_photos(30)
    return project


def test_a_run_that_rejected_too_many_ends_with_3_though_its_time_is_over(here, monkeypatch, capsys):
    (here.photos / "0005.jpg").write_bytes(b"no picture")
    asked = count(1)
    monkeypatch.setattr(Stop, "_is_late", lambda _: next(asked) > 20)
    assert run(RunOptions(date=DATE, lookback=0, max_duration=3600, max_rejected="0", as_json=True)) == 3
    told = json.loads(capsys.readouterr().out)
    assert (told["day"], told["exit_code"]) == ({"eligible": 30, "predicted": 19, "rejected": 1, "pending": 10}, 3)


def test_a_signal_between_two_models_is_the_exit_code_of_the_command(here, monkeypatch):
    save(ChannelMeans(), here.folder / "large.ts")
    build_model(here.folder, "large.ts", "large", "--recipe", "stretch", "--size", "24")
    monkeypatch.setattr(run_days, "note_facts", lambda *_: os.kill(os.getpid(), signal.SIGTERM))  # of the first
    assert run(RunOptions(date=DATE, lookback=0, model=["colors", "large"])) == 143
    assert here.rows("SELECT model, exit_code FROM infer_runs") == [("colors", 0)]
