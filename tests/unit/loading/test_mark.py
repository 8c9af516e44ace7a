import multiprocessing
import time

from infer_app.loading.mark import NOTHING, STAGES, InHand, Mark
from infer_app.records import FileFacts

CONTEXT = multiprocessing.get_context("spawn")


def seen(mark):
    """What a supervisor sees: another Mark over the same memory, without the time."""
    look = Mark(mark.memory).look()
    return look.task, look.position, look.stage, look.file


def test_a_new_mark_holds_nothing():
    assert seen(Mark.create(CONTEXT)) == (NOTHING, NOTHING, "", FileFacts())


def test_every_stage_is_seen_with_its_image_and_file():
    mark = Mark.create(CONTEXT)
    mark.begin_task(2**40)
    for position, stage in enumerate(STAGES):
        facts = FileFacts(position, 1.5, "0f" * 32)
        mark.hold(position, stage, facts)
        assert seen(mark) == (2**40, position, stage, facts)


def test_a_file_is_forgotten_with_the_next_image():
    mark = Mark.create(CONTEXT)
    mark.hold(0, "decode", FileFacts(9, 1.5, "ab" * 32))
    mark.hold(1, "read")
    assert seen(mark) == (NOTHING, 1, "read", FileFacts())


def test_an_empty_file_is_known_to_be_empty():
    mark = Mark.create(CONTEXT)
    mark.hold(0, "read", FileFacts(0, 1.5, "ab" * 32))
    assert seen(mark)[3] == FileFacts(0, 1.5, "ab" * 32)


def test_a_task_counts_from_its_first_step_on():
    """Before it a death has nothing to do with the task's images."""
    mark = Mark.create(CONTEXT)
    mark.begin_task(1)
    mark.hold(4, "model")
    mark.rest()
    mark.begin_task(2)
    assert seen(mark) == (NOTHING, NOTHING, "", FileFacts())


def test_the_time_is_that_of_the_step():
    mark = Mark.create(CONTEXT)
    before = time.monotonic()
    mark.hold(0, "read")
    first = mark.look()
    mark.hold(0, "decode")
    assert before <= first.since <= mark.look().since <= time.monotonic()
    assert isinstance(first, InHand)
