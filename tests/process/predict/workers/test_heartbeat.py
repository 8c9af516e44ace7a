import time

import pytest

from infer_app.predict.workers.heartbeat import Heartbeat
from tests.process.predict.workers.toy_calls import step, write_for_ever
from tests.unit.predict.workers.test_heartbeat import CONTEXT


@pytest.mark.parametrize("num_writers", [1, pytest.param(16, marks=pytest.mark.full)])
def test_no_look_sees_parts_of_two_records(num_writers):
    """Writers and a reader at full speed: each field of what is seen belongs to one record, and so does its time."""
    marks = [Heartbeat.create(CONTEXT) for _ in range(num_writers)]
    writers = [CONTEXT.Process(target=write_for_ever, args=(heartbeat.memory,), daemon=True) for heartbeat in marks]
    began_at = time.monotonic()
    for writer in writers:
        writer.start()
    try:
        look_until = time.monotonic() + (60 if num_writers > 1 else 2)
        num_seen = 0
        while num_seen < 10_000 or time.monotonic() < look_until:
            for heartbeat in marks:
                seen = heartbeat.read()
                if seen.stage:
                    num_seen += 1
                    assert (seen.task, seen.position, seen.stage, seen.file) == step(seen.task)
                    assert began_at <= seen.since <= time.monotonic()
    finally:
        for writer in writers:
            writer.kill()
            writer.join()
