"""How others hear of a night: log lines, a ping, a webhook, metrics. None of them changes how it ends."""

import json
import os
import signal
import time
from datetime import datetime

import pytest

from infer_app.base.telemetry.metrics import LAST_SUCCESS, read_samples
from tests.support.listeners import Raw, refusing_postgres, stay_silent
from tests.support.projects import DATE, found_first

pytestmark = pytest.mark.slow

SECRET = "canary"
RUN = ("run", "--date", DATE, "--workers", "1")
SUCCESS = (LAST_SUCCESS, "colors")
WRONG_PASSWORD = f"postgresql://me:{SECRET}@127.0.0.1:PORT/nowhere?sslmode=disable&gssencmode=disable"
NAMES_HANG = """
import socket, time
def hang(*_, **__):
    time.sleep(600)
socket.getaddrinfo = hang
"""


@pytest.fixture
def told(project, listener):
    """A project that tells everybody: told.infer(…), its pings and its metrics."""
    project.set("metrics", textfile="infer.prom")
    project.set("ping", url=f"{listener.url}/ping-{SECRET}")
    project.set("webhook", url=f"{listener.url}/hook-{SECRET}")
    return project


def metrics(project):
    """{(name, the model or nothing): value}"""
    written = read_samples((project.folder / "infer.prom").read_text())
    return {(name, dict(labels).get("model", "")): value for (name, labels), value in written.items()}


def body_of(listener, path):
    return [heard.body for heard in listener.heard if heard.path == path]


def log_lines(project):
    return [json.loads(line) for line in project.errors.splitlines()]


@pytest.mark.always
def test_a_good_night_is_told(told, listener):
    told.add_photos(3)
    answer = told.infer_json(*RUN)
    assert listener.paths[0] == f"/ping-{SECRET}/start"
    assert sorted(listener.paths[1:]) == [f"/hook-{SECRET}", f"/ping-{SECRET}"]
    assert json.loads(body_of(listener, f"/hook-{SECRET}")[0]) == answer
    assert "colors 3 predicted, 0 rejected, 0 pending" in body_of(listener, f"/ping-{SECRET}")[0]
    written = metrics(told)
    assert abs(written[SUCCESS] - time.time()) < 60
    assert written[("infer_images_predicted", "colors")] == 3
    assert written[("infer_last_run_exit_code", "")] == 0
    assert SECRET not in told.errors + (told.folder / "infer.prom").read_text()
    assert not list(told.folder.glob(".new-*"))


def test_a_night_that_can_not_begin_is_told_as_a_failure(told, listener):
    told.add_photos(1)
    assert (told.infer(*RUN, "--quiet"), told.errors) == ("", "")
    succeeded = metrics(told)[SUCCESS]
    listener.heard.clear()
    with refusing_postgres() as port:
        url = WRONG_PASSWORD.replace("PORT", str(port))
        error = told.infer_json(*RUN, "-v", exit_code=10, INFER_DATABASE__URL=url)
    assert sorted(listener.paths) == [f"/hook-{SECRET}", f"/ping-{SECRET}/10", f"/ping-{SECRET}/start"]
    hook = json.loads(body_of(listener, f"/hook-{SECRET}")[0])
    assert hook == error | {"date": DATE, "models": ["colors"], "notices": []}
    written = metrics(told)
    assert written[SUCCESS] == succeeded
    assert written[("infer_model_exit_code", "colors")] == 10
    assert ("infer_images_predicted", "colors") not in written
    failure = "failed with exit code 10, and could not record it"
    (notice,) = told.infer_json("status")["notices"]
    assert (notice["kind"], failure in notice["text"]) == ("failed night", True)
    assert failure in told.infer("run", "--date", DATE, "--quiet")  # which the next mail tells, once
    assert failure not in told.infer("run", "--date", DATE, "--quiet")
    assert failure in told.infer("status")
    everything = [told.errors, (told.folder / "infer.prom").read_text(), *(heard.body for heard in listener.heard)]
    assert not [text for text in everything if SECRET in text]


@pytest.mark.parametrize(
    ("arguments", "exit_code"), [(("run", "--model", "nowhere"), 12), ((*RUN, "--finish-by", "late"), 2)]
)
def test_a_wrong_command_is_told_too(told, listener, arguments, exit_code):
    told.infer(*arguments, exit_code=exit_code)
    pings = [path for path in listener.paths if path.startswith("/ping-")]  # the hook may come before either
    assert pings == [f"/ping-{SECRET}/start", f"/ping-{SECRET}/{exit_code}"]
    assert metrics(told)[("infer_last_run_exit_code", "")] == exit_code


@pytest.mark.parametrize("arguments", [(*RUN, "--dry-run"), ("backfill", "--from", DATE, "--to", DATE)], ids=" ".join)
def test_what_is_no_night_is_not_told(told, listener, arguments):
    told.add_photos(1)
    told.infer(*arguments)
    assert listener.heard == []
    assert not (told.folder / "infer.prom").exists()


def test_all_of_them_bad_cost_five_seconds_in_all_and_a_line_each(project, tmp_path):
    silent = Raw(stay_silent)
    seconds, exit_code, warnings = seconds_after_answer(
        project,
        INFER_PING__URL=f"https://a-name.invalid/{SECRET}",
        INFER_WEBHOOK__URL=f"{silent.url}/{SECRET}",
        INFER_METRICS__TEXTFILE="/nowhere/infer.prom",
        **found_first(tmp_path / "first", sitecustomize=NAMES_HANG),
    )
    silent.close()
    assert (exit_code, 4.5 < seconds < 30) == (0, True)  # five seconds, and what a busy machine adds
    assert warnings == [
        "no metrics in /nowhere/infer.prom: No such file or directory",
        "the ping to https://a-name.invalid/*** failed: no answer",
        f"the webhook to {silent.url}/*** failed: no answer",
    ]


def seconds_after_answer(project, number=None, **environ):
    """From the answer, or the signal a second after it, to the last line of the log; the exit code; the warnings.

    The interpreter's own end is left out: on a busy machine it takes seconds.
    """
    process = project.start(*RUN, "--log-format", "json", "--json", **environ)
    assert process.stdout.readline()
    began = time.time()
    if number:
        time.sleep(1)
        began = time.time()
        os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=60)
    lines = [json.loads(line) for line in errors.splitlines()]
    ended = datetime.fromisoformat(lines[-1]["timestamp"]).timestamp()
    return ended - began, process.returncode, [line["event"] for line in lines if line["level"] == "warning"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_others_are_told_ends_that_and_not_the_exit_code(project, number):
    silent = Raw(stay_silent)
    seconds, exit_code, warnings = seconds_after_answer(project, number, INFER_PING__URL=silent.url)
    silent.close()
    assert (exit_code, seconds < 4) == (0, True)  # less than the five of an answer that is waited for
    assert warnings == [f"the ping to {silent.url}/*** failed: no answer"]


def test_metrics_that_can_not_be_read_are_begun_anew(told):
    told.add_photos(1)
    (told.folder / "infer.prom").write_text("infer_last{{{")
    told.infer(*RUN, "--quiet")
    assert "can't be read and are replaced" in told.errors
    assert SUCCESS in metrics(told)


def test_the_log_says_at_its_begin_and_end_what_there_is_to_know(project):
    project.add_photos(5)
    project.infer(*RUN, "--log-format", "json", "--limit", "2")
    stopped = log_lines(project)
    project.infer(*RUN, "--json", INFER_LOG__FORMAT="json")
    first, *_, begins, last = log_lines(project)
    assert stopped[0]["event"].startswith("infer_app ")
    assert f"begins: {DATE} and 3 days before, model colors, database sqlite:///" in first["event"]
    assert begins["event"].startswith(f"resumes {DATE}: 2 of 5 images done, ")
    assert (begins["done"], begins["eligible"]) == (2, 5)
    assert (begins["date"], begins["model"]) == (DATE, "colors")
    assert project.rows("SELECT id FROM infer_runs ORDER BY started_at")[-1] == (begins["run_id"],)
    assert last["event"].startswith("exit code 0 after ")
    assert "colors 3 predicted, 0 rejected, 0 pending" in last["event"]
    (model,) = last["models"]
    assert (model["model"], model["selected"], model["pending"], last["exit_code"]) == ("colors", 3, 0, 0)
    assert model["limit_images_per_second"] is None  # so few images are no measure of speed


@pytest.mark.parametrize(
    ("environ", "exit_code"),
    [({"INFER_DATABASE__URL": "sqlite:////nowhere/x.db"}, 10), ({"INFER_NONSENSE__KEY": "1"}, 2)],
)
def test_a_failure_is_a_json_line_too(project, environ, exit_code):
    project.infer(*RUN, exit_code=exit_code, INFER_LOG__FORMAT="json", **environ)
    last = log_lines(project)[-1]
    assert (last["level"], last["exit_code"]) == ("error", exit_code)
    assert last["hint"]
