"""Runs the ladder: each strategy in a fresh process over the same files, one row each, whatever happens to another."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infer_app.bench.benchmark_request import BenchmarkRequest
from infer_app.bench.ours import find_broken
from infer_app.bench.processes import ProcessCost, run_measured
from infer_app.bench.strategies import LADDER, Strategy
from infer_app.errors import InferError
from infer_app.telemetry.summary_line import describe_others

ROW_LIMIT_S = 900.0  # what takes longer is a row that says so


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy's figures, or why it has none."""

    name: str
    says: str
    uses_model: bool
    images_per_second: float | None = None
    cpu_s_per_1000: float | None = None
    first_batch_s: float | None = None
    peak_pss: int | None = None  # bytes, of the whole process tree
    seconds: float | None = None  # from start to exit, imports included
    num_images: int | None = None
    others: float | None = None  # share of the machine's cores that anything else had meanwhile, 0-1
    note: str = ""


def find_broken_files(order: BenchmarkRequest) -> dict[str, str]:
    """Files that not every strategy can read, with the reason. They are in the page cache afterwards, all alike."""
    return find_broken(order.workload())


def measure_ladder(order: BenchmarkRequest, broken: dict[str, str], only: Sequence[str] = ()) -> Iterator[Row]:
    """A row for each strategy, as soon as it is measured."""
    sound = replace(order, paths=[path for path in order.paths if path not in broken])
    for strategy in LADDER:
        if not only or strategy.name in only:
            yield _measure(strategy, order if strategy.takes_broken else sound)


def _measure(strategy: Strategy, order: BenchmarkRequest) -> Row:
    row = Row(strategy.name, strategy.says, strategy.uses_model)
    try:
        cost, answer = _ask(order, strategy.name)
    except subprocess.TimeoutExpired:
        return replace(row, note=f"took more than {ROW_LIMIT_S:.0f} s")
    except InferError as error:
        return replace(row, note=f"failed: {error.message}")
    if "skipped" in answer:
        return replace(row, note=answer["skipped"])
    num_broken = len(order.paths) - answer["num_images"]
    notes = (f"{num_broken:,} broken dropped" if num_broken else "", describe_others(cost.others))
    return replace(
        row,
        **answer,
        peak_pss=cost.peak_pss,
        seconds=cost.seconds,
        others=cost.others,
        note=", ".join(filter(None, notes)),
    )


def _ask(order: BenchmarkRequest, strategy: str) -> tuple[ProcessCost, dict[str, Any]]:
    command = [sys.executable, "-m", "infer_app.bench.run_one", strategy]
    cost = run_measured(command, given=order.to_json(), timeout_s=ROW_LIMIT_S)
    if cost.exit_code:
        lines = cost.errors.strip().splitlines() or [f"ended with {cost.exit_code}"]
        raise InferError(lines[-1], cost.errors)
    answer: dict[str, Any] = json.loads(cost.output.splitlines()[-1])
    return cost, answer


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Where a run's CPU time goes: what `handler` takes is loading, what `executor` takes beyond it is the model."""

    loading_ms: float  # CPU milliseconds per image
    model_ms: float

    @property
    def is_model(self) -> bool:
        return self.model_ms >= self.loading_ms

    def __str__(self) -> str:
        total = self.loading_ms + self.model_ms
        spent = f"{self.model_ms:.1f} of {total:.1f} CPU ms per image are the model's"
        if self.is_model:
            return f"bottleneck: model; {spent}; with free loading a run is {total / self.model_ms:.2f} times as fast"
        return f"bottleneck: loading; {spent}; with a free model a run is {total / self.loading_ms:.2f} times as fast"


def find_bottleneck(rows: Sequence[Row]) -> Bottleneck | None:
    """None where one of the two rows has no figures."""
    costs = {row.name: row.cpu_s_per_1000 for row in rows}
    loading_ms, total_ms = costs.get("lane"), costs.get("executor")
    if loading_ms is None or total_ms is None:
        return None
    return Bottleneck(loading_ms, max(0.0, total_ms - loading_ms))
