import multiprocessing

from infer_app.base.domain import FileFacts
from infer_app.predict.workers.heartbeat import NOTHING, STAGES, Heartbeat

CONTEXT = multiprocessing.get_context("spawn")


def seen(heartbeat):
    """What a supervisor sees: another Heartbeat over the same memory, without the time."""
    look = Heartbeat(heartbeat.memory).read()
    return look.task, look.position, look.stage, look.file


def test_every_stage_is_seen_with_its_image_and_file():
    heartbeat = Heartbeat.create(CONTEXT)
    heartbeat.begin_task(2**40)
    for position, stage in enumerate(STAGES):
        facts = FileFacts(position, 1.5, "0f" * 32)
        heartbeat.record(position, stage, facts)
        assert seen(heartbeat) == (2**40, position, stage, facts)


def test_a_file_is_forgotten_with_the_next_image():
    heartbeat = Heartbeat.create(CONTEXT)
    heartbeat.record(0, "decode", FileFacts(9, 1.5, "ab" * 32))
    heartbeat.record(1, "read")
    assert seen(heartbeat) == (NOTHING, 1, "read", FileFacts())


def test_a_task_counts_from_its_first_step_on():
    """Before it a death has nothing to do with the task's images."""
    heartbeat = Heartbeat.create(CONTEXT)
    heartbeat.begin_task(1)
    heartbeat.record(4, "model")
    heartbeat.clear()
    heartbeat.begin_task(2)
    assert seen(heartbeat) == (NOTHING, NOTHING, "", FileFacts())


def test_a_record_that_its_writer_did_not_finish_leaves_the_one_before():
    """A worker may be killed, or not scheduled for long, in the middle of writing."""
    heartbeat = Heartbeat.create(CONTEXT)
    heartbeat.begin_task(7)
    for position in range(4):
        heartbeat.record(position, "decode", FileFacts(position, 1.5, "ab" * 32))
        before = bytes(heartbeat.memory)
        heartbeat.record(position + 1, "read")
        after = bytes(heartbeat.memory)
        changed = [place for place in range(len(before)) if before[place] != after[place]]
        for place in changed[:-1]:
            heartbeat.memory[:] = after[: place + 1] + before[place + 1 :]
            assert seen(heartbeat) == (7, position, "decode", FileFacts(position, 1.5, "ab" * 32))
        heartbeat.memory[:] = after


def test_a_worker_that_takes_over_a_mark_goes_on_after_what_was_written():
    heartbeat = Heartbeat.create(CONTEXT)
    heartbeat.record(0, "read")
    theirs = Heartbeat(heartbeat.memory)
    theirs.begin_task(3)
    theirs.record(5, "decode")
    assert seen(heartbeat) == (3, 5, "decode", FileFacts())
