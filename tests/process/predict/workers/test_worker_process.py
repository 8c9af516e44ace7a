"""What a handler does in its process: it can't be opened, fails, dies or answers at length."""

import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Reason
from infer_app.base.errors import DeviceLost, InferError, MachineFailure, ModelError
from tests.process.predict.workers.conftest import chunk, chunks, each_pool, right, run
from tests.process.predict.workers.toy_handlers import (
    FACTS,
    OpenOnly,
    SwollenLane,
    be_killed,
    find_no_gpu,
    open_dying,
    open_refused,
)


@pytest.mark.parametrize("happening", ["take:raise", "take:OSError", "expect:raise", "expect:OSError", "decode:raise"])
def test_a_bug_in_a_handler_ends_the_run_with_its_traceback(start, happening):
    """Also in the thread that listens, once the handler is open."""
    workers = start(num_workers=1)
    run(workers, [chunk(0, "good")])
    with pytest.raises(InferError, match="a worker failed: (ValueError: a bug|OSError: not of the pipe)") as caught:
        run(workers, [chunk(1, happening), *chunks(9)])
    assert (caught.value.exit_code, "in happen" in caught.value.hint) == (1, True)
    assert run(workers, chunks(2)) == right(chunks(2))


def test_what_the_machine_does_to_a_worker_is_no_bug(start):
    workers = start(num_workers=1)
    run(workers, [chunk(0, "good")])
    with pytest.raises(MachineFailure, match="^Too many open files$"):
        run(workers, [chunk(1, "take:EMFILE")])


def test_what_is_known_of_the_file_survives_the_crash(start):
    results = list(start().run([chunk(1, "decode:SIGABRT")]))
    detail = "the decoder died twice by SIGABRT, the second time alone"
    ref = ImageRef("1.0", "decode:SIGABRT")
    assert results == [ChunkResult(1, (), (Broken(ref, Reason.DECODER_CRASH, detail, "decode", FACTS),))]


@each_pool
@pytest.mark.parametrize(
    ("opener", "error"), [(open_refused, "changed since it was built"), (open_dying, r"starting \(exit code 7\)")]
)
def test_a_handler_that_can_not_be_opened_ends_the_run(start, num_stages, opener, error):
    with pytest.raises(ModelError, match=error) as caught:
        run(start(num_stages, opener=opener), chunks(5))
    assert (caught.value.exit_code, bool(caught.value.hint)) == (12, True)


def test_a_worker_that_is_killed_while_starting_is_replaced(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=be_killed, is_first=False)
    assert run(start(num_workers=1, opener=opener), chunks(2)) == right(chunks(2))


def test_a_gpu_that_does_not_come_back_ends_the_run_and_rejects_nothing(start, tmp_path):
    opener = OpenOnly(tmp_path / "x", otherwise=find_no_gpu, is_first=True)
    with pytest.raises(DeviceLost) as caught:
        list(start(num_workers=1, opener=opener).run([chunk(0, "good", "model:lost", "good")]))
    assert caught.value.exit_code == 12


def test_messages_larger_than_a_pipe_both_ways_do_not_block(start):
    """Two tasks are on their way to a worker while its answers are."""
    size = 1 << 20
    results = start(num_workers=1, opener=SwollenLane(num_bytes=size)).run(chunk(n, "x" * size) for n in range(6))
    assert [(one.number, len(one.predictions[0].output.vector)) for one in results] == [(n, size) for n in range(6)]
