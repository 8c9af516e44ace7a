from dataclasses import replace

import pytest

from infer_app.model_variants import VariantTrial
from infer_app.run_report import Alternative
from infer_app.telemetry.bottleneck import (
    DATABASE,
    STORAGE,
    Cost,
    advise,
    compute_speedup,
    display_name,
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


def test_all_stages_share_the_cores():
    assert rate_limits(COST)["cores"] == 2_000 / 20.0


def test_a_worker_waits_for_the_storage_and_a_database_for_nobody_else():
    rates = rate_limits(waiting(read=21.5, write=8.0, select=0.5))
    assert rates == {"cores": 100.0, "workers": 2_000 / 40.0, "database": 1_000 / 10.0}


def test_more_workers_than_cores_hide_the_wait_for_the_storage():
    rates = rate_limits(replace(waiting(read=21.5), num_workers=5))
    assert (rates["cores"], rates["workers"]) == (100.0, 125.0)


def test_a_model_with_threads_keeps_its_worker_for_less_time_and_the_cores_for_the_same():
    rates = rate_limits(replace(COST, num_workers=1, num_threads=2))
    assert rates["cores"] == rate_limits(COST)["cores"]
    assert rates["workers"] == 1_000 / (0.5 + 4.0 + 14.0 / 2)


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


def test_a_cheaper_stage_gains_by_amdahls_law():
    assert compute_speedup(COST, INT8) == pytest.approx(20 / (20 - 7))
    assert compute_speedup(COST, replace(INT8, stages=("decode",), ms=0.0)) == pytest.approx(20 / (20 - 4))


def test_an_alternative_that_was_measured_at_another_speed_is_scaled():
    """The machine was half as fast then; half the cost is half the cost."""
    assert compute_speedup(COST, replace(INT8, ms=14.0, instead_of=28.0)) == compute_speedup(COST, INT8)


def test_a_gain_ends_where_the_next_resource_limits():
    assert compute_speedup(waiting(write=7.5), INT8) == pytest.approx(9.0**-1 * 1_000 / 100)


def test_the_best_alternative_is_named():
    decoding = Alternative("scaled decoding: --decode scaled", ("decode",), 1.0, 4.0)
    assert advise(rank(COST, [decoding, INT8])) == "1.5 × faster overall with int8: --precision int8"
    assert advise(rank(COST, [decoding])) == "1.2 × faster overall with scaled decoding: --decode scaled"


@pytest.mark.parametrize(
    "alternatives", [[], [replace(INT8, ms=13.5)], [replace(INT8, ms=20.0)], [replace(INT8, instead_of=0.0)]], ids=str
)
def test_without_a_measured_gain_nothing_is_said(alternatives):
    assert advise(rank(COST, alternatives)) is None


def test_a_precision_that_changes_too_many_labels_is_told_and_not_advised():
    trial = VariantTrial("cpu-openvino-int8", 256, 0.91, 0.98, 0.2, 0.4, 0.97, False)
    decoding = Alternative("scaled decoding", ("decode",), 1.0, 4.0)
    ranked = rank(COST, [decoding, replace(INT8, trial=trial)])
    assert [(one.trial, one.is_advised) for one in ranked] == [(trial, False), (None, True)]
    assert advise(ranked) == "1.2 × faster overall with scaled decoding"


@pytest.mark.parametrize("cost", [waiting(read=15.0), waiting(write=40.0)])
def test_a_cheaper_model_helps_neither_storage_nor_database(cost):
    assert advise(rank(cost, [INT8])) is None


def test_stages_are_named_as_verbs():
    assert display_name("decode") == "decoding"
    assert display_name("model") == "model"
