"""The rate that this machine could reach at the measured costs, what sets it, and what would raise it.

An image takes the time of these things, and the run is as fast as the scarcest of them (the utilisation law of queueing
theory, Lazowska et al. 1984, Quantitative System Performance, 3.2 and 5.2: no resource is busy for more than all of
the time, so the rate is at most the number of its servers over the time an image needs of one):

- the cores: Σ of the CPU milliseconds of all stages, the coordinator's select and write included, since on a CPU all
  stages share the same cores;
- the workers: Σ of the CPU milliseconds of their stages and of the wait for the storage, since a worker runs a chunk to
  its end; those of the model over its threads;
- the device, where there is one: Σ of the wall milliseconds of its process's stages;
- the database: CPU and wait of select and write, since there is one coordinator and it does one thing at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from infer_app.domain import Alternative

COORDINATOR = frozenset({"select", "write"})
WORTH_NAMING = 1.05  # a smaller gain is within what the measurement itself varies by
STORAGE, DATABASE, DEVICE = "storage", "database", "device"
IN_WORDS = {
    "read": "reading limits",
    "decode": "decoding limits",
    "transform": "resizing limits",
    "gpu-decode": "decoding on the GPU limits",
    "model": "the model limits",
    STORAGE: "the storage limits",
    DATABASE: "the database limits",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What an image takes, and of how many it can take it."""

    cpu_ms: Mapping[str, float]  # by stage, of one thread
    wait_ms: Mapping[str, float]  # by stage: of the coordinator for the database, of the others for the storage
    num_cores: int
    num_workers: int
    num_threads: int = 1  # of a worker's model
    device_ms: Mapping[str, float] = field(default_factory=dict)  # by stage: wall time of the device's one process


def limits(cost: Cost) -> dict[str, float]:
    """Images per second of each resource; of those only that an image takes anything of."""
    cores_ms = sum(cost.cpu_ms.values())
    workers_ms = sum(_of_a_worker(cost).values())
    database_ms = _database(cost.cpu_ms) + _database(cost.wait_ms)
    times = {
        "cores": (cost.num_cores, cores_ms),
        "workers": (cost.num_workers, workers_ms),
        DATABASE: (1, database_ms),
        DEVICE: (1, sum(cost.device_ms.values())),
    }
    return {resource: 1e3 * servers / ms for resource, (servers, ms) in times.items() if ms > 0}


def limiting_stage(cost: Cost) -> str | None:
    """The dearest part of the scarcest resource: a stage of the workers, the storage, or the database."""
    rates = limits(cost)
    scarcest = min(rates, key=rates.__getitem__, default=None)
    if scarcest is None or scarcest == DATABASE:
        return scarcest
    if scarcest == "workers":
        parts = _of_a_worker(cost)
    elif scarcest == DEVICE:
        parts = dict(cost.device_ms)
    else:
        parts = {stage: ms for stage, ms in cost.cpu_ms.items() if stage not in COORDINATOR}
        parts[DATABASE] = _database(cost.cpu_ms)
    return max(parts, key=parts.__getitem__)


def advise(cost: Cost, alternatives: Sequence[Alternative]) -> str | None:
    """The alternative that would raise the limit most, in words; None where none does by a twentieth.

    Amdahl's law with every resource in it: the limit with the cheaper stage over the limit as it is. Where storage or
    database limit, nothing is named: a cheaper stage would only wait more.
    """
    if limiting_stage(cost) in (None, STORAGE, DATABASE):
        return None
    gains = {alternative.what: gain(cost, alternative) for alternative in alternatives if alternative.instead_of > 0}
    best = max(gains, key=gains.__getitem__, default="")
    return f"{gains[best]:.1f} × faster over all with {best}" if gains.get(best, 0) >= WORTH_NAMING else None


def gain(cost: Cost, alternative: Alternative) -> float:
    """The limit with the alternative over the limit without. Its cost is scaled to what its stages took in this run."""
    share = alternative.ms / alternative.instead_of
    scaled = {stage: ms * share if stage in alternative.stages else ms for stage, ms in cost.cpu_ms.items()}
    cheaper = replace(cost, cpu_ms=scaled)
    return min(limits(cheaper).values()) / min(limits(cost).values())


def in_words(limited_by: str) -> str:
    return IN_WORDS.get(limited_by, f"{limited_by} limits")


def _of_a_worker(cost: Cost) -> dict[str, float]:
    """Milliseconds that an image keeps a worker busy or waiting."""
    parts = {stage: ms for stage, ms in cost.cpu_ms.items() if stage not in COORDINATOR | cost.device_ms.keys()}
    parts["model"] = parts.get("model", 0.0) / cost.num_threads
    return parts | {STORAGE: sum(ms for stage, ms in cost.wait_ms.items() if stage not in COORDINATOR)}


def _database(ms: Mapping[str, float]) -> float:
    return sum(ms.get(stage, 0.0) for stage in COORDINATOR)
