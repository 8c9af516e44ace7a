"""How others hear of a night: log lines, a ping, a webhook, metrics. None of them changes how it ends."""

import json
import os
import shutil
import signal
import sqlite3
import time
from datetime import datetime

import pytest

from infer_app.cli.commands.run_commands import RunOptions
from infer_app.cli.run.run import run
from infer_app.errors import Interrupted
from infer_app.pipeline.run_days import RunLimits
from infer_app.pipeline.stop import Stop
from infer_app.telemetry.metrics import LAST_SUCCESS, read_samples
from tests.support.listeners import Closed, Raw, Recorder, stay_silent, trickle, with_certificate
from tests.support.projects import DATE
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

SECRET = "canary"
RUN = ("run", "--date", DATE, "--workers", "1")
SUCCESS = (LAST_SUCCESS, "colors")
WRONG_PASSWORD = f"postgresql://me:{SECRET}@127.0.0.1:1/nowhere"
NAMES_HANG = """
import socket, time
def hang(*_, **__):
    time.sleep(600)
socket.getaddrinfo = hang
"""


@pytest.fixture
def server():
    server = Recorder()
    yield server
    server.close()


@pytest.fixture
def told(project, server):
    """A project that tells everybody: told.infer(…), its pings and its metrics."""
    file = project.folder / "infer.toml"
    text = file.read_text().replace("[metrics]", '[metrics]\ntextfile = "infer.prom"')
    text = text.replace("[ping]", f'[ping]\nurl = "{server.url}/ping-{SECRET}"')
    file.write_text(text.replace("[webhook]", f'[webhook]\nurl = "{server.url}/hook-{SECRET}"'))
    return project


def metrics(project):
    """{(name, the model or nothing): value}"""
    written = read_samples((project.folder / "infer.prom").read_text())
    return {(name, dict(labels).get("model", "")): value for (name, labels), value in written.items()}


def body_of(server, path):
    return [heard.body for heard in server.heard if heard.path == path]


def log_lines(project):
    return [json.loads(line) for line in project.errors.splitlines()]


@pytest.mark.always
def test_a_good_night_is_told(told, server):
    told.add_photos(3)
    answer = told.infer_json(*RUN)
    assert server.paths[0] == f"/ping-{SECRET}/start"
    assert sorted(server.paths[1:]) == [f"/hook-{SECRET}", f"/ping-{SECRET}"]
    assert json.loads(body_of(server, f"/hook-{SECRET}")[0]) == answer
    assert "colors 3 predicted, 0 rejected, 0 pending" in body_of(server, f"/ping-{SECRET}")[0]
    written = metrics(told)
    assert abs(written[SUCCESS] - time.time()) < 60
    assert written[("infer_images_predicted", "colors")] == 3
    assert written[("infer_last_run_exit_code", "")] == 0
    assert SECRET not in told.errors + (told.folder / "infer.prom").read_text()
    assert not list(told.folder.glob(".new-*"))


def test_a_night_that_can_not_begin_is_told_as_a_failure(told, server):
    told.add_photos(1)
    told.infer(*RUN, "--quiet")
    succeeded = metrics(told)[SUCCESS]
    server.heard.clear()
    error = told.infer_json(*RUN, "-v", exit_code=10, INFER_DATABASE__URL=WRONG_PASSWORD)
    assert sorted(server.paths) == [f"/hook-{SECRET}", f"/ping-{SECRET}/10", f"/ping-{SECRET}/start"]
    hook = json.loads(body_of(server, f"/hook-{SECRET}")[0])
    assert hook == error | {"date": DATE, "models": ["colors"]}
    written = metrics(told)
    assert written[SUCCESS] == succeeded
    assert written[("infer_model_exit_code", "colors")] == 10
    assert ("infer_images_predicted", "colors") not in written
    everything = [told.errors, (told.folder / "infer.prom").read_text(), *(heard.body for heard in server.heard)]
    assert not [text for text in everything if SECRET in text]


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [(("run", "--model", "nowhere"), 12), (("run", "--date", "nonsense"), 2), ((*RUN, "--finish-by", "late"), 2)],
    ids=["model", "date", "finish-by"],
)
def test_a_wrong_command_is_told_too(told, server, arguments, exit_code):
    told.infer(*arguments, exit_code=exit_code)
    pings = [path for path in server.paths if path.startswith("/ping-")]  # the hook may come before either
    assert pings == [f"/ping-{SECRET}/start", f"/ping-{SECRET}/{exit_code}"]
    assert metrics(told)[("infer_last_run_exit_code", "")] == exit_code


@pytest.mark.parametrize("arguments", [(*RUN, "--dry-run"), ("backfill", "--from", DATE, "--to", DATE)], ids=" ".join)
def test_what_is_no_night_is_not_told(told, server, arguments):
    told.add_photos(1)
    told.infer(*arguments)
    assert server.heard == []
    assert not (told.folder / "infer.prom").exists()


@pytest.fixture
def bad(tmp_path, server):
    """bad("trickling") is the address of such a server, and what is said of it."""
    servers = []

    def make(kind):
        scheme = "https" if kind in ("untrusted", "silent TLS") else "http"
        makers = {
            "refusing": (Closed, "Connection refused"),
            "trickling": (lambda: Raw(trickle), "no answer"),
            "500": (lambda: Recorder(500), "the server answered 500"),
            "redirecting": (
                lambda: Recorder(301, location=server.url),
                "the server answered 301 and redirects are not",
            ),
            "untrusted": (lambda: Raw(with_certificate(tmp_path)), "its certificate is not trusted: self-signed"),
            "silent TLS": (lambda: Raw(stay_silent), "no answer"),
        }
        one, said = makers[kind]
        servers.append(one())
        return f"{scheme}://{servers[-1].url.removeprefix('http://')}/{SECRET}", said

    yield make
    for one in servers:
        one.close()


@pytest.mark.parametrize(
    ("ping", "hook"), [("trickling", "500"), ("redirecting", "silent TLS"), ("untrusted", "refusing")]
)
def test_a_bad_server_costs_five_seconds_at_most_and_one_line(project, server, bad, ping, hook):
    if ping == "untrusted" and shutil.which("openssl") is None:
        pytest.skip("needs openssl: apt-get install openssl")
    addresses = {"ping": bad(ping), "webhook": bad(hook)}
    environ = {f"INFER_{name.upper()}__URL": url for name, (url, _) in addresses.items()}
    seconds, exit_code, warnings = seconds_after_answer(project, **environ)
    assert (exit_code, seconds < 30) == (0, True)
    for warning, (name, (url, said)) in zip(warnings, addresses.items(), strict=True):
        assert warning.startswith(f"the {name} to {url.partition(SECRET)[0]}*** failed: {said}")
    assert SECRET not in "".join(warnings)
    assert server.heard == []  # nor did a redirect lead there


def test_all_of_them_bad_cost_five_seconds_in_all(project, tmp_path):
    silent = Raw(stay_silent)
    (tmp_path / "sitecustomize.py").write_text(NAMES_HANG)
    seconds, exit_code, warnings = seconds_after_answer(
        project,
        INFER_PING__URL="https://a-name.invalid/x",
        INFER_WEBHOOK__URL=silent.url,
        INFER_METRICS__TEXTFILE="/nowhere/infer.prom",
        PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]),
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


def test_a_night_that_was_stopped_is_told_with_its_signal(told, server):
    told.add_photos(1500)
    process = told.start(*RUN, "--log-format", "json", INFER_RUN__CHUNK_SIZE="1")
    for line in process.stderr:
        if json.loads(line)["event"].startswith("begins 20"):
            break
    wait_until(lambda: told.rows("SELECT count(*) FROM infer_predictions") > [(9,)])
    with sqlite3.connect(told.folder / "infer.db", timeout=60, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")  # the run can't end meanwhile, however fast the machine is
        process.send_signal(signal.SIGTERM)
        other.execute("ROLLBACK")
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"/ping-{SECRET}/143" in server.paths


@pytest.mark.usefixtures("logging_as_it_was")
def test_a_signal_before_the_first_model_is_the_exit_code(project, monkeypatch):
    class Signalled(Stop):
        def __enter__(self):
            super().__enter__()
            os.kill(os.getpid(), signal.SIGTERM)
            return self

    monkeypatch.setattr(RunLimits, "stop", lambda _: Signalled())
    with pytest.raises(Interrupted) as caught:
        run(RunOptions(date=DATE, quiet=True, config=project.folder / "infer.toml"))
    assert caught.value.exit_code == 143


def test_metrics_that_can_not_be_read_are_begun_anew(told):
    told.add_photos(1)
    (told.folder / "infer.prom").write_text("infer_last{{{")
    told.infer(*RUN, "--quiet")
    assert "can't be read and are replaced" in told.errors
    assert SUCCESS in metrics(told)


def test_the_log_says_at_its_begin_and_end_what_there_is_to_know(project):
    project.add_photos(5)
    project.infer("--log-format", "json", *RUN, "--limit", "2")
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
    ("arguments", "environ", "exit_code"),
    [
        (RUN, {"INFER_DATABASE__URL": "sqlite:////nowhere/x.db"}, 10),
        (("run", "--date", "nonsense"), {}, 2),
        (RUN, {"INFER_RUN__LOOKBACK": "many"}, 2),
        (RUN, {"INFER_NONSENSE__KEY": "1"}, 2),
    ],
    ids=["database", "date", "setting", "variable"],
)
def test_a_failure_is_a_json_line_too(project, arguments, environ, exit_code):
    project.infer(*arguments, exit_code=exit_code, INFER_LOG__FORMAT="json", **environ)
    last = log_lines(project)[-1]
    assert (last["level"], last["exit_code"]) == ("error", exit_code)
    assert last["hint"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"INFER_PING__URL": f"{SECRET}.example/x"}, "ping.url"),
        ({"INFER_WEBHOOK__URL": f"ftp://{SECRET}/x"}, "webhook.url"),
        ({"INFER_WEBHOOK__URL": f"http://[{SECRET}"}, "webhook.url"),
        ({"INFER_METRICS__TEXTFILE": "infer.txt"}, "metrics.textfile"),
        ({"INFER_LOG__FORMAT": "xml"}, "log.format"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_without_its_secret(project, setting, said):
    project.infer(*RUN, exit_code=2, **setting)
    assert said in project.errors
    assert SECRET not in project.errors


def test_the_settings_that_are_shown_hold_no_secret(told, server):
    shown = told.infer_json("config", "show")
    assert shown["ping.url"]["value"] == shown["webhook.url"]["value"] == f"{server.url}/***"
    assert SECRET not in told.infer("config", "show", "--origin")
