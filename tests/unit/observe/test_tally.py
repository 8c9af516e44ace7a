from dataclasses import replace

import pytest

from infer_app.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.telemetry import tally as tally_module
from infer_app.telemetry.stage_clock import STAGES, WAITING_STAGES, StageClock
from infer_app.telemetry.tally import Tally

REF = ImageRef("1", "/1.jpg")


@pytest.fixture
def clock(monkeypatch):
    """Time that moves when told: clock.now += 1."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(tally_module, "time", clock)
    return clock


def result(worker, num_images=10, cpu=0.0, wait=0.0):
    predictions = tuple(Prediction(ImageRef(str(i), "/"), Output(), None) for i in range(num_images))
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
    more = tuple(replace(prediction, model=1) for prediction in one.predictions)
    tally.add(replace(one, predictions=one.predictions + more, models=(0, 1)), wrote())
    assert tally.cpu_ms()["model"] == pytest.approx(20.0)


def test_where_there_are_only_first_chunks_they_are_what_is_known():
    tally = Tally(2)
    tally.add(result(1, cpu=0.2), wrote(0.01))
    assert tally.cpu_ms()["model"] == pytest.approx(20.0)
    assert tally.steady_images_per_second is None


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


def test_a_verdict_over_a_dead_worker_is_no_work(clock):
    tally = Tally(1)
    tally.add(result(1, cpu=0.2), wrote())
    tally.add(ChunkResult(1, (), (Broken(REF, Reason.DECODER_CRASH, "", "decode"),)), wrote())
    assert (tally.cpu_ms()["model"], tally.steady_images_per_second) == (pytest.approx(20.0), None)


def test_each_node_of_a_cluster_has_its_own_figures(clock):
    tally = Tally(2)
    for node, cpu in (("a", 0.1), ("b", 0.4), ("a", 0.3)):
        tally.add(replace(result(1, 10, cpu=cpu), node=node), wrote())
    clock.now += 10
    figures = {node: (one["images"], one["images_per_second"], one["stages"]) for node, one in tally.nodes().items()}
    assert figures == {"a": (20, 2.0, {"model": pytest.approx(20)}), "b": (10, 1.0, {"model": pytest.approx(40)})}
    assert Tally(1).nodes() == {}
