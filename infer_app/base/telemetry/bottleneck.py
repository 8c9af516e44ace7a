"""The highest rate that this machine can reach at the measured costs, and its bottleneck.

Each image uses four resources, and the scarcest of them bounds the rate. This is the utilisation law of queueing theory
(Lazowska et al. 1984, Quantitative System Performance, 3.2 and 5.2): a resource is busy for at most all of the time, so
the rate is at most the number of its servers divided by the time that an image needs of one server.

- cores: the CPU time of all stages, including the coordinator's select and write, since on a CPU all stages share the
  cores;
- workers: the CPU time of their stages plus the wait for storage, since a worker finishes a chunk before it starts the
  next one; the model's CPU time is divided by its threads;
- device, if there is one: the wall time of its process's stages;
- database: CPU time and wait of select and write, since the one coordinator runs them one after the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from infer_app.base.run_report import MIN_IMAGES, RunReport
from infer_app.base.telemetry.stage_clock import WAITING_STAGES

COORDINATOR = frozenset({"select", "write"})
MAX_SHARE = 1.2  # of the limit; a larger one comes from chunks that were committed at once after a short run
MIN_TAKEN = 0.1  # share of the cores' time from which on other programs are named
MIN_MISSING = 0.05  # of the limit; less is within the measurement's own variation
STORAGE, DATABASE, DEVICE, OTHERS = "storage", "database", "device", "other programs"
DISPLAY_NAMES = {"read": "reading", "decode": "decoding", "transform": "resizing"}


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds per image by stage, and the number of servers of each resource."""

    cpu_ms: Mapping[str, float]  # of one thread
    wait_ms: Mapping[str, float]  # the coordinator waits for the database, all other stages wait for storage
    num_cores: int
    num_workers: int
    num_threads: int = 1  # of the model in each worker
    device_ms: Mapping[str, float] = field(default_factory=dict)  # wall time of a device's process
    num_devices: int = 1


def rate_limits(cost: Cost) -> dict[str, float]:
    """Return the highest rate of each resource, in images per second; resources that images don't use are left out."""
    cores_ms = sum(cost.cpu_ms.values())
    workers_ms = sum(_worker_ms(cost).values())
    database_ms = _database_ms(cost.cpu_ms) + _database_ms(cost.wait_ms)
    times = {
        "cores": (cost.num_cores, cores_ms),
        "workers": (cost.num_workers, workers_ms),
        DATABASE: (1, database_ms),
        DEVICE: (cost.num_devices, sum(cost.device_ms.values())),
    }
    return {resource: 1e3 * servers / ms for resource, (servers, ms) in times.items() if ms > 0}


def find_bottleneck(cost: Cost) -> str | None:
    """Return what uses most of the scarcest resource: a stage, "storage" or "database"; None without measurements."""
    rates = rate_limits(cost)
    scarcest = min(rates, key=rates.__getitem__, default=None)
    if scarcest is None or scarcest == DATABASE:
        return scarcest
    if scarcest == "workers":
        parts = _worker_ms(cost)
    elif scarcest == DEVICE:
        parts = dict(cost.device_ms)
    else:
        parts = {stage: ms for stage, ms in cost.cpu_ms.items() if stage not in COORDINATOR}
        parts[DATABASE] = _database_ms(cost.cpu_ms)
    return max(parts, key=parts.__getitem__)


def with_bottleneck(report: RunReport) -> RunReport:
    """Return the report with its bottleneck; after too short a run without one, and without a share.

    Other programs are the bottleneck if they took at least half of the share of the limit that is missing, and some is;
    or if they had the cores most of the time and waits set the limit, which then are waits for a core.
    """
    share = report.share_of_limit
    if report.selected < MIN_IMAGES or share is None or share > MAX_SHARE or report.limited_by is None:
        return replace(report, bottleneck=None, limited_by=None, share_of_limit=None)
    missing = 1 - share
    taken = taken_by_others(report)
    is_disturbed = missing >= MIN_MISSING and taken >= max(MIN_TAKEN, missing / 2)
    is_disturbed |= report.limited_by in (DATABASE, STORAGE) and taken >= 0.5
    return replace(report, bottleneck=OTHERS if is_disturbed else report.limited_by, share_of_limit=min(share, 1.0))


def taken_by_others(report: RunReport) -> float:
    """Return the share of the cores' time in which workers were ready to run but other programs ran, 0-1.

    It is the wall time beyond the CPU time of the stages that wait only for a core. With more workers than cores it is
    0, since the workers then take the cores from each other.
    """
    return lost_share(report.stages, report.walls) if report.num_workers <= report.num_cores else 0.0


def lost_share(cpu: Mapping[str, float], wall: Mapping[str, float]) -> float:
    """Return the share of the wall time of the stages that only compute in which other programs had the cores, 0-1."""
    busy = [stage for stage in wall if stage not in WAITING_STAGES]
    computed, passed = (sum(times.get(stage, 0.0) for stage in busy) for times in (cpu, wall))
    return max(0.0, 1 - computed / passed) if passed else 0.0


def display_name(bottleneck: str) -> str:
    return DISPLAY_NAMES.get(bottleneck, bottleneck)


def _worker_ms(cost: Cost) -> dict[str, float]:
    """Return the milliseconds that an image keeps a worker busy or waiting, by stage."""
    parts = {stage: ms for stage, ms in cost.cpu_ms.items() if stage not in COORDINATOR | cost.device_ms.keys()}
    parts["model"] = parts.get("model", 0.0) / cost.num_threads
    return parts | {STORAGE: sum(ms for stage, ms in cost.wait_ms.items() if stage not in COORDINATOR)}


def _database_ms(ms: Mapping[str, float]) -> float:
    return sum(ms.get(stage, 0.0) for stage in COORDINATOR)
