from dataclasses import replace

import pytest

from infer_app.base.model_variants import VariantTrial
from infer_app.base.run_report import Alternative
from infer_app.base.telemetry.bottleneck import (
    DATABASE,
    STORAGE,
    Cost,
    advise,
    compute_speedup,
    find_bottleneck,
    rank,
    rate_limits,
)

COST = Cost(
    cpu_ms={"select": 0.5, "read": 0.5, "decode": 4.0, "model": 14.0, "write": 1.0},
    wait_ms={},
    num_cores=2,
    num_workers=2,
)
INT8 = Alternative("int8: --precision int8", ("model",), 7.0, 14.0)


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
    assert (rate_limits(nothing), find_bottleneck(nothing), advise(rank(nothing, [INT8]))) == ({}, None, None)


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


@pytest.mark.parametrize(
    ("cost", "alternative", "speedup"),
    [
        pytest.param(COST, INT8, 20 / (20 - 7), id="Amdahl's law"),
        pytest.param(COST, replace(INT8, stages=("decode",), ms=0.0), 20 / (20 - 4), id="another stage"),
        pytest.param(COST, replace(INT8, ms=14.0, instead_of=28.0), 20 / (20 - 7), id="measured at half the speed"),
        pytest.param(waiting(write=7.5), INT8, 10 / 9, id="up to where the next resource limits"),
        pytest.param(COST, replace(INT8, ms=13.5), None, id="hardly any"),
        pytest.param(COST, replace(INT8, ms=20.0), None, id="none"),
        pytest.param(COST, replace(INT8, instead_of=0.0), None, id="not measured"),
        pytest.param(waiting(read=15.0), INT8, None, id="storage limits"),
        pytest.param(waiting(write=40.0), INT8, None, id="database limits"),
    ],
)
def test_what_is_faster_overall_is_advised(cost, alternative, speedup):
    if speedup:
        assert compute_speedup(cost, alternative) == pytest.approx(speedup)
    assert (advise(rank(cost, [alternative])) is not None) == bool(speedup)


def test_the_best_alternative_is_named():
    decoding = Alternative("scaled decoding: --set decode=scaled", ("decode",), 1.0, 4.0)
    assert advise(rank(COST, [decoding, INT8])) == "1.5 × faster overall with int8: --precision int8"
    assert advise(rank(COST, [decoding])) == "1.2 × faster overall with scaled decoding: --set decode=scaled"


def test_a_precision_that_changes_too_many_labels_is_told_and_not_advised():
    trial = VariantTrial("cpu-openvino-int8", 256, 0.91, 0.98, 0.2, 0.4, 0.97, False)
    decoding = Alternative("scaled decoding", ("decode",), 1.0, 4.0)
    ranked = rank(COST, [decoding, replace(INT8, trial=trial)])
    assert [(one.trial, one.is_advised) for one in ranked] == [(trial, False), (None, True)]
    assert advise(ranked) == "1.2 × faster overall with scaled decoding"
