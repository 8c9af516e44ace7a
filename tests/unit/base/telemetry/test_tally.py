from dataclasses import replace

import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.base.telemetry.stage_clock import STAGES, WAITING_STAGES, StageClock
from infer_app.base.telemetry.tally import Commit, Tally, merge_pairs, steady_rate

REF = ImageRef("1", "/1.jpg")


def result(worker, num_images=10, cpu=0.0, wait=0.0):
    predictions = tuple(Prediction(ImageRef(str(i), "/"), Output()) for i in range(num_images))
    measured = {"cpu_seconds": {"model": cpu}, "wall_seconds": {"model": 2 * cpu}, "wait_seconds": {"read": wait}}
    return ChunkResult(0, predictions, (), **measured, worker=worker)


def wrote(seconds=0.0):
    clock = StageClock()
    clock.cpu_seconds["write"] = clock.wall_seconds["write"] = seconds
    return clock


def test_a_workers_first_chunk_is_cold_and_does_not_count():
    tally = Tally(2)
    for worker in (1, 2):
        tally.add(result(worker, cpu=9.0), wrote(1.0))
    for worker in (1, 2, 1):
        tally.add(result(worker, cpu=0.2, wait=0.1), wrote(0.01))
    assert tally.cpu_ms() == dict.fromkeys(STAGES, 0.0) | {"model": pytest.approx(20.0), "write": pytest.approx(1.0)}
    assert tally.wall_ms()["model"] == pytest.approx(40.0)
    assert tally.wait_ms() == dict.fromkeys(WAITING_STAGES, 0.0) | {"read": pytest.approx(10.0)}


def test_two_models_of_an_image_are_one_image():
    tally, one = Tally(1), result(1, cpu=0.2)
    more = tuple(replace(prediction, model_index=1) for prediction in one.predictions)
    tally.add(replace(one, predictions=one.predictions + more, model_indices=(0, 1)), wrote())
    assert tally.cpu_ms()["model"] == pytest.approx(20.0)


def test_without_images_nothing_was_measured():
    tally = Tally(2)
    tally.add_page(0, wrote())
    assert (tally.cpu_ms(), tally.wall_ms(), tally.wait_ms()) == ({}, {}, {})


def test_a_page_costs_what_it_costs_per_image_on_it():
    """A dry run takes a few of a page of a thousand."""
    tally, clock = Tally(1), StageClock()
    clock.cpu_seconds["select"], clock.wait_seconds["select"] = 0.5, 2.0
    tally.add_page(1_000, clock)
    tally.add(result(1), wrote())
    assert (tally.cpu_ms()["select"], tally.wait_ms()["select"]) == (0.5, 2.0)


def test_the_rate_is_that_between_starting_and_the_idle_end(clock):
    """The second worker starts 5 s later, and the first is done 20 s before it: ten images a second each."""
    tally = Tally(2)
    for second in range(10, 61):
        clock.now = 100 + second
        if second <= 40:
            tally.add(result(1), wrote())
        if second >= 15:
            tally.add(result(2), wrote())
    clock.now = 300
    assert tally.steady_images_per_second == pytest.approx(20.0)
    assert tally.seconds == 200


def test_a_verdict_over_a_dead_worker_is_no_work_and_only_a_first_chunk_is_what_is_known(clock):
    tally = Tally(1)
    tally.add(result(1, cpu=0.2), wrote())
    tally.add(ChunkResult(1, (), (Broken(REF, Reason.DECODER_CRASH, "", "decode"),)), wrote())
    assert (tally.cpu_ms()["model"], tally.steady_images_per_second) == (pytest.approx(20.0), None)


def test_images_that_need_no_worker_cost_nothing_and_count(clock):
    tally = Tally(1)
    for _ in range(3):
        tally.add(result(1, cpu=0.2), wrote())
        tally.add(result(0, num_images=30), wrote())
        clock.now += 1
    assert tally.cpu_ms()["model"] == pytest.approx(5.0)
    assert tally.steady_images_per_second == pytest.approx(40.0)


def test_each_node_of_a_cluster_has_its_own_figures(clock):
    tally = Tally(2)
    for node, cpu in (("a", 0.1), ("b", 0.4), ("a", 0.3)):
        tally.add(replace(result(1, 10, cpu=cpu), node=node), wrote())
    clock.now += 10
    figures = {node: (one["images"], one["images_per_second"], one["stages"]) for node, one in tally.nodes().items()}
    assert figures == {"a": (20, 2.0, {"model": pytest.approx(20)}), "b": (10, 1.0, {"model": pytest.approx(40)})}
    assert Tally(1).nodes() == {}


def commits(**times):
    """commits(a=[1, 2]): worker a committed ten images after one second and ten after two; in order of time."""
    found = [Commit(at, ord(worker), 10) for worker, moments in times.items() for at in moments]
    return sorted(found, key=lambda commit: commit.at)


def every(seconds, start, end):
    return [start + i * seconds for i in range(int((end - start) / seconds) + 1)]


ALONE, BOTH = every(1, 0, 9), every(2, 10, 30)


@pytest.mark.parametrize(
    ("times", "rate"),
    [
        pytest.param({"a": [1.0, 2.0], "b": [1.1, 2.1]}, 20.0, id="what began before or ended after counts in part"),
        *(
            pytest.param({"a": every(1, 3, 20), "b": every(1, 3 + lag, 20 + lag)}, 20.0, id=f"started {lag} s later")
            for lag in (0.0, 0.3, 0.9, 4.2)
        ),
        # the database takes a chunk a second, at first all of them from the one worker that has started
        pytest.param({"a": ALONE + BOTH, "b": [at + 1 for at in BOTH]}, 10.0, id="slow database, one alone at first"),
        pytest.param({"a": every(1, 0, 20), "b": [*every(1, 0, 20), 21, 22, 90]}, 20.0, id="idle end"),
        pytest.param(
            {"a": every(1, 0, 10), "b": every(1, 0, 30), "c": every(1, 13, 30)}, 57 * 10 / 30, id="one was replaced"
        ),
        pytest.param({"a": every(1, 0, 5)}, 10.0, id="fewer than there might be"),
        *(
            pytest.param(few, None, id="too few chunks")
            for few in ({}, {"a": [1]}, {"a": [1], "b": [2]}, {"a": [1, 2], "b": [1.5]})
        ),
    ],
)
def test_the_steady_rate_is_that_of_two_workers_at_work(times, rate):
    assert steady_rate(commits(**times), 2) == (rate and pytest.approx(rate))


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_merging_chunks_leaves_the_rate_and_the_images(times):
    whole = commits(a=every(1, 0, 80), b=every(1, 0.4, 80.4), c=[3.0])
    kept = whole
    for _ in range(times):
        kept = merge_pairs(kept)
    assert sum(one.num_images for one in kept) == sum(one.num_images for one in whole)
    assert len(kept) <= len(whole) / 2**times + 4
    assert steady_rate([one for one in kept if one.worker != ord("c")], 2) == pytest.approx(20.0)
