import os

import pytest

from infer_app.ask.timeline import read_timeline
from infer_app.base.domain import Span
from infer_app.base.errors import UsageError
from infer_app.base.telemetry.trace import Trace


def test_a_trace_becomes_a_row_for_each_process(tmp_path):
    path = tmp_path / "run.json"
    with Trace(path) as trace:
        start = trace._origin
        trace.add(7, [Span("decode", start, 4.0, 4.0, ("1",)), Span("model", start + 4, 6.0, 6.0, ("1",))])
        trace.add(os.getpid(), [Span("write", start + 9.0, 1.0, 0.1, ("1",))])
    found = read_timeline(path)
    assert found.seconds == pytest.approx(10)
    assert [lane.name for lane in found.lanes] == ["coordinator", "worker 1"]
    coordinator, worker = found.lanes
    assert coordinator.busy == pytest.approx(0.1)
    assert worker.busy == pytest.approx(1)
    assert [(bar.stage, bar.start, bar.width) for bar in worker.bars] == [
        ("decode", 0, pytest.approx(0.4)),
        ("model", pytest.approx(0.4), pytest.approx(0.6)),
    ]
    assert [bar.stage for bar in coordinator.bars] == ["write"]


def test_a_trace_of_a_run_that_did_nothing_is_empty_and_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "run.json"
    with pytest.raises(UsageError, match="can't be read"):
        read_timeline(path)
    with Trace(path):
        pass
    found = read_timeline(path)
    assert (found.seconds, found.lanes) == (0, ())
    torn = '{"displayTimeUnit": "ms", "traceEvents": [\n{"ph": "X"}\n]}\n'
    for content in ("", "[]", "nonsense", torn, '{"displayTimeUnit"\n{"'):
        path.write_text(content)
        with pytest.raises(UsageError, match="is not a trace"):
            read_timeline(path)
