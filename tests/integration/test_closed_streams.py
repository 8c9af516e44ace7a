"""A run whose words nobody hears: a full disk behind standard output or standard error, a reader who has gone."""

import os
import subprocess

import pytest

from tests.support.projects import DATE, INFER


@pytest.fixture
def broken_day(project):
    """More empty files than a run of the day may reject: it ends with 3."""
    project.add_photos(12)
    for number in range(11):
        (project.photos / f"{number}.jpg").touch()
    project.add("photos")
    return project


def exit_code(project, *arguments, **streams):
    return subprocess.run([INFER, *arguments], cwd=project.folder, **streams).returncode


@pytest.mark.parametrize("lost", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="+".join)
def test_a_run_ends_as_it_went_though_its_words_are_lost(broken_day, lost):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | dict.fromkeys(lost, full)
        assert exit_code(broken_day, "run", "--date", DATE, "--lookback", "0", **streams) == 3
    assert broken_day.rows("SELECT exit_code FROM infer_runs WHERE selected > 0") == [(3,)]


def test_a_run_whose_reader_has_gone_ends_as_it_went(broken_day):
    reader, writer = os.pipe()
    os.close(reader)
    assert exit_code(broken_day, "run", "--date", DATE, "--lookback", "0", stdout=writer, stderr=writer) == 3
    os.close(writer)


def test_a_list_that_could_not_be_written_is_no_success(broken_day):
    broken_day.infer("run", "--date", DATE, exit_code=3)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        assert (
            exit_code(broken_day, "list", "--state", "rejected", "--date", DATE, stdout=full, stderr=subprocess.DEVNULL)
            == 74
        )
        assert exit_code(broken_day, "list", "--state", "rejected", "--date", DATE, stdout=full, stderr=full) == 74


@pytest.mark.parametrize("flags", [(), ("--json",)], ids=["table", "json"])
@pytest.mark.parametrize("stream", ["has no reader", "is closed"])
def test_a_list_that_nobody_reads_ends_quietly(project, flags, stream):
    project.add_photos(1)
    reader, writer = os.pipe()
    os.close(reader)
    command = f'exec "$0" "$@" {">&-" if stream == "is closed" else ""}'
    ran = ["sh", "-c", command, INFER, "status", *flags]
    ended = subprocess.run(ran, cwd=project.folder, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")
