import io
import json
import logging
import os
import time

import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason, Span
from infer_app.base.errors import UsageError
from infer_app.base.telemetry.display import Progress, Trace
from tests.conftest import DAY

ONE, OTHER = ImageRef("1", "/1.jpg"), ImageRef("2", "/2.jpg")
RESULT = ChunkResult(0, (Prediction(ONE, Output()),), (Broken(OTHER, Reason.EMPTY, "", "read"),))


def never():
    raise AssertionError("it is not shown")


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO, "infer_app")


def on_terminal(is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    return Progress(stream=stream), stream


def test_quiet_counts_nothing_and_says_nothing(caplog, capsys):
    with Progress(quiet=True).of_day(DAY, never, None) as advance:
        advance(RESULT)
    assert (caplog.messages, capsys.readouterr()) == ([], ("", ""))


@pytest.mark.parametrize(("limit", "total"), [(None, "12,000"), (20, "20"), (99_999, "12,000")])
def test_under_cron_a_line_a_minute_with_the_rate_of_all_so_far(caplog, clock, limit, total):
    progress, shown = on_terminal(False)
    with progress.of_day(DAY, lambda: 12_000, limit) as advance:
        for second in (0, *[30] * 298, 59, 60, 61, 119, 120):
            clock.now = 100.0 + second
            advance(RESULT)
    assert caplog.messages == [
        f"2026-11-20: 602 of {total} images, 10 a second",
        f"2026-11-20: 608 of {total} images, 5.1 a second",
    ]
    assert shown.getvalue() == ""


def test_on_a_terminal_a_bar_that_is_gone_at_the_end(caplog, clock):
    progress, shown = on_terminal(True)
    with pytest.raises(ZeroDivisionError), progress.of_day(DAY, lambda: 4, None) as advance:
        advance(RESULT)
        clock.now += 3600
        advance(RESULT)
        raise ZeroDivisionError  # it is taken away after an error too
    assert "2026-11-20" in shown.getvalue()
    assert "4/4" in shown.getvalue()
    assert "\x1b[?25h" in shown.getvalue()  # the cursor is back
    assert caplog.messages == []


def test_a_day_with_nothing_to_do_shows_no_bar():
    progress, shown = on_terminal(True)
    with progress.of_day(DAY, lambda: 0, None):
        pass
    assert shown.getvalue() == ""


ME = os.getpid()
WORKER = ME + 1


def read(path):
    return json.loads(path.read_text())


def test_a_span_is_a_complete_event_in_microseconds_with_its_images(tmp_path):
    began = time.monotonic()
    with Trace(tmp_path / "t.json") as trace:
        started = time.monotonic()
        trace.add(WORKER, [Span("decode", began + 3.0, 0.002, 0.001, ("7",))])
    *names, event = read(tmp_path / "t.json")["traceEvents"]
    assert 3.0 - (started - began) <= event.pop("ts") / 1e6 <= 3.0
    assert event == {
        "name": "decode",
        "ph": "X",
        "pid": WORKER,
        "tid": WORKER,
        "dur": 2_000.0,
        "args": {"images": ["7"], "cpu_ms": 1.0},
    }
    assert {name["ph"] for name in names} == {"M"}


def test_an_old_trace_stays_whole_until_the_new_one_is(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), Trace(path) as trace:
        trace.add(WORKER, [Span("read", 50.0, 0.1, 0.1, ("1",))])
        assert path.read_text() == "old"
        raise ZeroDivisionError
    assert read(path)["traceEvents"][-1]["name"] == "read"
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_a_link_in_a_folder_of_everybody_is_not_followed(tmp_path):
    """Under the name of the file that is written first, as far as anybody can know it."""
    (tmp_path / "mine").write_text("mine")
    (tmp_path / f".t.json.{ME}.part").symlink_to(tmp_path / "mine")
    with Trace(tmp_path / "t.json"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("where", ["nowhere/t.json", ".", "/dev/null", "file/t.json"])
def test_where_nothing_can_be_written_is_refused_at_once(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--trace"):
        Trace(tmp_path / where)


def test_a_full_disk_ends_the_trace_and_not_the_run(tmp_path, caplog, no_space):
    with Trace(tmp_path / "t.json") as trace, no_space():
        for _ in range(2_000):
            trace.add(WORKER, [Span("read", 50.0, 0.1, 0.1, ("1",))])
    assert caplog.messages == [f"no trace: {tmp_path / 't.json'}: File too large"]
    assert list(tmp_path.iterdir()) == []
