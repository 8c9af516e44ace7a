import time

import pytest

from infer_app.observe.stages import ADVICE, STAGES, StageClock, cost_per_image, limit_images_per_second, name_the_limit


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_waiting_costs_nothing_and_work_adds_up():
    clock = StageClock()
    for _ in range(2):
        with clock.time("decode"):
            burn(0.01)
    with clock.time("read"):
        time.sleep(0.05)
    assert set(clock.cpu_seconds) == {"read", "decode"}
    assert 0.02 <= clock.cpu_seconds["decode"] < 0.04
    assert clock.cpu_seconds["read"] < 0.01


def test_a_stage_that_fails_is_counted_too():
    clock = StageClock()
    with pytest.raises(ValueError, match="broken"), clock.time("decode"):
        burn(0.005)
        raise ValueError("broken")
    assert clock.cpu_seconds["decode"] >= 0.005


def test_costs_are_milliseconds_per_image_of_every_stage():
    costs = cost_per_image({"decode": 0.5, "model": 2.0, "unknown": 9.0}, 100)
    assert costs == dict.fromkeys(STAGES, 0.0) | {"decode": 5.0, "model": 20.0}
    assert cost_per_image({"decode": 0.5}, 0) == {}


def test_the_limit_is_the_cores_over_the_sum_of_the_costs():
    assert limit_images_per_second({"decode": 5.0, "model": 20.0}, 2) == 80.0
    assert limit_images_per_second({}, 2) is None
    assert limit_images_per_second({"decode": 0.0}, 2) is None


@pytest.mark.parametrize("stage", ADVICE)
def test_the_dearest_stage_limits(stage):
    assert name_the_limit(dict.fromkeys(STAGES, 1.0) | {stage: 2.0}) == ADVICE[stage]


def test_a_stage_without_advice_is_called_by_its_name():
    assert name_the_limit({"collate": 2.0, "model": 1.0}) == "collate limits"
    assert name_the_limit({}) == "the model limits"
