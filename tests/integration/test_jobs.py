"""jobs/: what cron runs, in cron's bare environment."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from infer_app.base.errors import InferError, ProvesLittle
from tests.support.projects import INFER
from tests.support.waiting import wait_until
from tests.support.watched import CRON_ENVIRONMENT, DAILY, run_daily

JOBS = Path(__file__).parents[2] / "jobs"
OF_RUNS = {error.exit_code for error in InferError.__subclasses__() if error is not ProvesLittle}
EXIT_CODES = sorted({1, 3, 75, 137, 143} | OF_RUNS)


@pytest.fixture
def stub_infer(tmp_path):
    """stub_infer("exit 3") is a project folder whose .venv has this shell line as `infer`."""

    def write(line):
        stub = tmp_path / ".venv" / "bin" / "infer"
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(f"#!/bin/bash\n{line}\n")
        stub.chmod(0o755)
        return tmp_path

    return write


@pytest.mark.always
def test_a_bad_night_says_what_ran_how_it_ended_and_why(project):
    """The database is named as a crontab would: a line of its own, on its way to infer as it is."""
    elsewhere = "sqlite:////nowhere/infer.db"
    job = run_daily(DAILY_PROJECT=str(project.folder), DAILY_COMMAND=str(INFER), INFER_DATABASE__URL=elsewhere)
    assert job.returncode == 10
    command, meaning, *log = job.stdout.splitlines()
    assert command.startswith(f"{INFER} run --date yesterday --quiet in {project.folder} on ")
    assert meaning == "exit code 10: the database can't be reached or written; the next run catches up"
    assert log[0].startswith(f"infer: {elsewhere}")


@pytest.mark.parametrize("exit_code", EXIT_CODES)
def test_every_exit_code_is_passed_on_and_explained(stub_infer, exit_code):
    job = run_daily(stub_infer(f"exit {exit_code}"))
    assert job.returncode == exit_code
    assert f"exit code {exit_code}: " in job.stdout
    assert "not an exit code of infer" not in job.stdout
    assert "changed nothing" not in job.stdout  # of 13: the other days were run


def test_a_log_that_could_not_be_kept_is_told(stub_infer):
    """As infer with standard error on a full disk: nothing could be written, and the exit code is still its own."""
    assert "its output is lost: is /tmp full?" in run_daily(stub_infer("exit 10")).stdout
    for told in ("echo why; exit 10", "kill -9 $$"):  # what is killed tells nothing
        assert "is lost" not in run_daily(stub_infer(told)).stdout


def test_of_what_a_good_night_says_only_what_wants_to_be_looked_at_is_mailed(stub_infer):
    project = stub_infer("echo out; echo 'attention: no images for 3 days'; echo err >&2")
    job = run_daily("--limit", "7", DAILY_PROJECT=str(project))
    command, *attention = job.stdout.splitlines()
    assert command.startswith(f"{project}/.venv/bin/infer run --date yesterday --quiet --limit 7 in {project} on ")
    assert (job.returncode, attention, job.stderr) == (0, ["attention: no images for 3 days"], "")


def test_of_a_long_log_the_end_is_mailed_and_no_temporary_file_stays(stub_infer, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    job = run_daily("--model", "two words", DAILY_PROJECT=str(stub_infer("seq 200; exit 3")), TMPDIR=str(scratch))
    command, _, cut, *log = job.stdout.splitlines()
    assert "infer run --date yesterday --quiet --model two\\ words in " in command
    assert (cut, len(log), log[-1]) == ("the last 100 of 200 lines:", 100, "200")
    assert list(scratch.iterdir()) == []


def test_sigterm_reaches_infer_once_and_its_exit_code_comes_back(stub_infer):
    until_told = "touch started; until [[ $stop ]]; do sleep 0.1; done; exit 143"
    project = stub_infer(f"trap 'echo stopping; stop=yes' TERM; {until_told}")
    job = subprocess.Popen([str(DAILY), str(project)], env=CRON_ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    wait_until((project / "started").exists)
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=60)
    assert (job.returncode, out.count("stopping")) == (143, 1)


def test_a_stopped_run_is_waited_for(stub_infer):
    """As cpulimit and a debugger stop one: the exit code and the mail are those of the run that went on."""
    project = stub_infer("echo $$ >pid; kill -STOP $$; echo 'attention: went on'")
    job = subprocess.Popen([str(DAILY), str(project)], env=CRON_ENVIRONMENT, stdout=subprocess.PIPE, text=True)
    pid = project / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    wait_until(lambda: "(stopped)" in Path(f"/proc/{pid.read_text().strip()}/status").read_text())
    os.kill(int(pid.read_text()), signal.SIGCONT)
    out, _ = job.communicate(timeout=60)
    assert (job.returncode, out.splitlines()[1:]) == (0, ["attention: went on"])


@pytest.mark.parametrize(
    ("project", "complaint"), [("/nowhere", "there is no project folder /nowhere"), ("/", "infer is not installed in")]
)
def test_a_wrong_crontab_line_says_so(tmp_path, project, complaint):
    alone = tmp_path / "jobs" / "daily.sh"  # without this repository's .venv beside it
    alone.parent.mkdir()
    shutil.copy(DAILY, alone)
    job = subprocess.run([str(alone), project], env=CRON_ENVIRONMENT, capture_output=True, text=True)
    assert job.returncode == 2
    assert complaint in job.stderr


def test_the_infer_beside_it_is_found_by_a_relative_path_too(tmp_path):
    infer = tmp_path / ".venv" / "bin" / "infer"
    for folder in (infer.parent, tmp_path / "jobs", tmp_path / "project"):
        folder.mkdir(parents=True)
    shutil.copy(DAILY, tmp_path / "jobs")
    infer.write_text("#!/bin/sh\necho attention: found\n")
    infer.chmod(0o755)
    command = ["jobs/daily.sh", str(tmp_path / "project")]
    job = subprocess.run(command, cwd=tmp_path, env=CRON_ENVIRONMENT, capture_output=True, text=True)
    assert (job.returncode, job.stdout.splitlines()[1:]) == (0, ["attention: found"])


@pytest.mark.parametrize("script", ["jobs/daily.sh", "docker/try.sh", "tests/wheel.sh"])
def test_shellcheck_finds_nothing(script):
    shellcheck = INFER.with_name("shellcheck")
    if not shellcheck.exists():
        pytest.skip("needs shellcheck, which `make test` installs")
    check = subprocess.run([shellcheck, JOBS.parent / script], capture_output=True, text=True)
    assert (check.returncode, check.stdout) == (0, "")


def test_the_crontab_is_one_job_at_half_past_two_that_calls_daily_sh():
    text = (JOBS / "infer.cron").read_text()
    assert text.endswith("\n")  # cron drops a last line without
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    settings = [line for line in lines if re.fullmatch(r"[A-Z_]+=\S+", line)]
    assert [line.partition("=")[0] for line in settings] == ["SHELL", "MAILTO"]
    (job,) = [line for line in lines if line not in settings]
    assert job.split(maxsplit=5)[:5] == ["30", "2", "*", "*", "*"]
    assert re.fullmatch(r"/\S+/jobs/daily\.sh /\S+", job.split(maxsplit=5)[5])
