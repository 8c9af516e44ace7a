"""The table: a row for each strategy, whatever happens to one; and what its last line means."""

from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.bench import comparison
from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.comparison import Bottleneck, Row, find_bottleneck, measure_strategies
from infer_app.telemetry.summary_line import describe_others


@pytest.fixture
def benchmark(artifact, files, tmp_path):
    (tmp_path / "infer.toml").touch()
    return BenchmarkRequest(files, tmp_path / "infer.toml", {}, artifact.folder, (Path(files[0]).parent,), 2)


@pytest.mark.slow
def test_a_strategy_that_fails_is_a_row_that_says_so_and_the_next_is_measured(benchmark):
    gone = f"{benchmark.paths[0]} is gone"
    benchmark = replace(benchmark, paths=[*benchmark.paths, gone])
    dropping, turbo = measure_strategies(benchmark, {}, only=["drop-broken", "turbo"])
    others = describe_others(dropping.others)  # nothing, on a quiet machine
    assert (dropping.num_images, dropping.note, dropping.uses_model) == (
        len(benchmark.paths) - 1,
        f"1 broken dropped, {others}" if others else "1 broken dropped",
        False,
    )
    assert min(dropping.images_per_second, dropping.first_batch_s, dropping.peak_pss, dropping.seconds) > 0
    assert dropping.cpu_s_per_1000 is not None
    assert (turbo.images_per_second, turbo.note.partition(":")[0]) == (None, "failed")
    assert "not_found" in turbo.note


def test_a_request_arrives_unchanged(benchmark):
    assert BenchmarkRequest.from_json(benchmark.to_json()) == benchmark


def test_a_strategy_that_takes_too_long_is_a_row_that_says_so(benchmark, monkeypatch):
    monkeypatch.setattr(comparison, "ROW_LIMIT_S", 0.2)
    assert [row.note for row in measure_strategies(benchmark, {}, only=["naive"])] == ["took more than 0 s"]


@pytest.mark.parametrize(
    ("loading", "both", "share", "gain"),
    [
        (
            3.0,
            15.0,
            "bottleneck: model; 12.0 of 15.0",
            "with free loading a run is 1.25",
        ),
        (9.0, 12.0, "bottleneck: loading; 3.0 of 12.0", "with a free model a run is 1.33"),
    ],
)
def test_the_bottleneck_is_what_takes_the_most_cpu_time(loading, both, share, gain):
    rows = [Row("lane", "", False, cpu_s_per_1000=loading), Row("executor", "", True, cpu_s_per_1000=both)]
    assert str(find_bottleneck(rows)) == f"{share} CPU ms per image are the model's; {gain} times as fast"


def test_without_both_rows_there_is_no_bottleneck():
    assert find_bottleneck([Row("lane", "", False, cpu_s_per_1000=3.0), Row("executor", "", True)]) is None
    assert Bottleneck(2.0, 0.0).is_model is False
