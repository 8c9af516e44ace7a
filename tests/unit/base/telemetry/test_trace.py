import json
import os
import time

import pytest

from infer_app.base.domain import Span
from infer_app.base.errors import UsageError
from infer_app.base.telemetry.trace import Trace

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


def test_a_full_disk_ends_the_trace_and_not_the_run(tmp_path, caplog):
    with Trace(tmp_path / "t.json") as trace:
        trace._file.close()
        trace._file = open("/dev/full", "w")  # noqa: PTH123, SIM115
        for _ in range(2_000):
            trace.add(WORKER, [Span("read", 50.0, 0.1, 0.1, ("1",))])
    assert caplog.messages == [f"no trace: {tmp_path / 't.json'}: No space left on device"]
    assert list(tmp_path.iterdir()) == []
