from dataclasses import replace

import pytest

from infer_app.base.telemetry.bottleneck import DATABASE, STORAGE, Cost, find_bottleneck, rate_limits

COST = Cost(
    cpu_ms={"select": 0.5, "read": 0.5, "decode": 4.0, "model": 14.0, "write": 1.0},
    wait_ms={},
    num_cores=2,
    num_workers=2,
)


def waiting(**ms):
    return replace(COST, wait_ms=ms)


@pytest.mark.parametrize(
    ("cost", "ms_of_workers", "ms_of_database"),
    [
        (COST, 18.5 / 2, 1.5),  # cores are shared
        (waiting(read=21.5, write=8.0, select=0.5), 40.0 / 2, 10.0),  # a worker waits for the storage alone
        (replace(waiting(read=21.5), num_workers=5), 40.0 / 5, 1.5),  # more workers than cores hide that wait
        (replace(COST, num_workers=1, num_threads=2), 0.5 + 4.0 + 14.0 / 2, 1.5),  # threads free their worker, no core
    ],
)
def test_each_resource_has_its_own_limit(cost, ms_of_workers, ms_of_database):
    rates = {"cores": 100.0, "workers": 1_000 / ms_of_workers, "database": 1_000 / ms_of_database}
    assert rate_limits(cost) == pytest.approx(rates)


def test_nothing_measured_is_no_limit():
    nothing = Cost({}, {}, 2, 2)
    assert (rate_limits(nothing), find_bottleneck(nothing)) == ({}, None)


@pytest.mark.parametrize(
    ("cost", "stage"),
    [
        (COST, "model"),
        (replace(COST, cpu_ms=COST.cpu_ms | {"decode": 15.0}), "decode"),
        (waiting(read=13.0), "model"),  # it waits, but not for longer than the model takes
        (waiting(read=15.0), STORAGE),
        (waiting(write=9.0), DATABASE),
        (waiting(select=9.0), DATABASE),
        (replace(COST, cpu_ms=COST.cpu_ms | {"write": 30.0}), DATABASE),  # its CPU is one coordinator's
        (replace(COST, num_cores=8), "model"),  # two workers on eight cores
        (Cost({"model": 1.0, "write": 0.7, "select": 0.7}, {}, 1, 4), DATABASE),
    ],
)
def test_the_dearest_part_of_the_scarcest_resource_limits(cost, stage):
    assert find_bottleneck(cost) == stage
