"""Compare the strategies: run each in a new process on the same files; one that fails does not affect the others."""

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
from infer_app.bench.strategies import STRATEGIES, Strategy
from infer_app.errors import InferError
from infer_app.telemetry.summary_line import describe_others

ROW_LIMIT_S = 900.0  # time limit of a strategy


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one strategy, or in `note` why it has none. Keys are added, never renamed."""

    name: str
    says: str
    uses_model: bool
    images_per_second: float | None = None
    cpu_s_per_1000: float | None = None
    first_batch_s: float | None = None
    peak_pss: int | None = None  # bytes, of the whole process tree
    seconds: float | None = None  # from start to exit, imports included
    num_images: int | None = None
    others: float | None = None  # share of the machine's cores that other programs used meanwhile, 0-1
    note: str = ""


def find_broken_files(request: BenchmarkRequest) -> dict[str, str]:
    """Return the files that not every strategy can read, with the reasons; afterwards all are in the page cache."""
    return find_broken(request.workload())


def measure_strategies(request: BenchmarkRequest, broken: dict[str, str], only: Sequence[str] = ()) -> Iterator[Row]:
    """Yield a row for each strategy as soon as it is measured."""
    intact = replace(request, paths=[path for path in request.paths if path not in broken])
    for strategy in STRATEGIES:
        if not only or strategy.name in only:
            yield _measure(strategy, request if strategy.takes_broken else intact)


def _measure(strategy: Strategy, request: BenchmarkRequest) -> Row:
    row = Row(strategy.name, strategy.description, strategy.uses_model)
    try:
        cost, answer = _run(request, strategy.name)
    except subprocess.TimeoutExpired:
        return replace(row, note=f"took more than {ROW_LIMIT_S:.0f} s")
    except InferError as error:
        return replace(row, note=f"failed: {error.message}")
    if "skipped" in answer:
        return replace(row, note=answer["skipped"])
    num_broken = len(request.paths) - answer["num_images"]
    notes = (f"{num_broken:,} broken dropped" if num_broken else "", describe_others(cost.others))
    return replace(
        row,
        **answer,
        peak_pss=cost.peak_pss,
        seconds=cost.seconds,
        others=cost.others,
        note=", ".join(filter(None, notes)),
    )


def _run(request: BenchmarkRequest, strategy: str) -> tuple[ProcessCost, dict[str, Any]]:
    command = [sys.executable, "-m", "infer_app.bench.run_one", strategy]
    cost = run_measured(command, stdin=request.to_json(), timeout_s=ROW_LIMIT_S)
    if cost.exit_code:
        lines = cost.errors.strip().splitlines() or [f"ended with {cost.exit_code}"]
        raise InferError(lines[-1], cost.errors)
    answer: dict[str, Any] = json.loads(cost.output.splitlines()[-1])
    return cost, answer


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The CPU time of a run by part: that of the row `lane` is loading, what `executor` adds is the model."""

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
    """Return where the CPU time of a run goes; None if one of the two rows has no figures."""
    costs = {row.name: row.cpu_s_per_1000 for row in rows}
    loading_ms, total_ms = costs.get("lane"), costs.get("executor")
    if loading_ms is None or total_ms is None:
        return None
    return Bottleneck(loading_ms, max(0.0, total_ms - loading_ms))
