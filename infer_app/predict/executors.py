"""Executors: a pool of worker processes on this machine or of actors on a cluster, opened by plan and settings.

- `cpu`: each worker runs its chunks to completion, by default one worker for each core.
- `cuda`: loaders decode into slots of a ring, and one process copies the slots to the device and predicts. The device
  `cpu` works in the same way, with plain copies and the model on a core.
- `ray`: actors on the nodes of a cluster, each with a pool of one of these two kinds.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.second_network import detector_of, second_networks_of
from infer_app.base.domain import Chunk, ChunkResult, NewImage
from infer_app.base.errors import UsageError
from infer_app.base.machine import usable_cores
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.settings.sections import RaySettings
from infer_app.base.size import Size
from infer_app.predict.chunking import FEW_IMAGES, ChunkSize, cut_into_chunks
from infer_app.predict.execution_plan import ExecutionPlan
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.open_handler import open_cpu_handler, open_load_handler, open_predict_handler
from infer_app.predict.workers.pool import WorkerPool, slots_for

log = logging.getLogger(__name__)

SLOT_IMAGES = 64  # in a slot of the ring, in a chunk and in a batch
DEVICE_STAGES = frozenset({"model", "outputs"})  # sequential in a device's process; copies run in parallel


class Pool(Protocol):
    """Processes that are started when there is work, and kept between runs."""

    def run(self, chunks: Iterable[Chunk]) -> Generator[ChunkResult, None, None]:
        """Yield results in any order, with every ref of every chunk in exactly one of them."""

    def pids(self) -> list[int]: ...

    def close(self) -> None:
        """End the processes; the next run starts others."""


@dataclass(frozen=True, slots=True)
class Executor:
    """A pool, with what the report and the forecast of a run need to know of it."""

    name: str
    device: str
    handler: HandlerSpec
    pool: Pool
    num_cores: int
    num_workers: int
    num_devices: int = 0  # each with a process that predicts for all workers; 0: each worker predicts
    chunk_size: int | None = None  # maximum number of images in a chunk; None: without a maximum
    num_nodes: int = 1

    @property
    def num_predictors(self) -> int:
        """Return the number of processes that predict."""
        return self.num_devices or self.num_workers

    @property
    def device_stages(self) -> frozenset[str]:
        """Return the stages that run in the processes of the devices."""
        return DEVICE_STAGES if self.num_devices else frozenset()

    @property
    def least_chunk(self) -> int:
        """Return the number of images of the smallest chunk, a batch of those that take whole pictures."""
        spec = self.handler
        firsts = [one for number, one in enumerate(spec.models) if number not in spec.second_networks | spec.idle]
        return max(min(model.batch_size or FEW_IMAGES, FEW_IMAGES) for model in firsts or spec.models)

    def limit_chunk(self, wanted: int) -> int:
        """Return the number of images of a chunk; 0: found while it runs. The setting can only lower the maximum."""
        return min(wanted or self.chunk_size, self.chunk_size) if self.chunk_size else wanted

    def predict(self, images: Iterable[NewImage]) -> Iterator[ChunkResult]:
        """Yield the results of images that are predicted without a run, in any order."""
        return self.pool.run(cut_into_chunks(images, ChunkSize(self.limit_chunk(FEW_IMAGES))))


@dataclass(frozen=True, slots=True)
class RingSpec:
    """The slots of the `cuda` executor's ring, and the devices that predict from them, by torch's names."""

    batch_size: int  # images in a slot: a chunk fills one slot, which is one batch
    size: Size  # of an image
    devices: tuple[str, ...]


def open_pool(
    handler: HandlerSpec, num_workers: int, timeout_s: float, ring_spec: RingSpec | None = None
) -> WorkerPool:
    """Open a pool whose workers run their chunks to completion with `handler.num_threads` threads each.

    With a ring it has loaders and a process for each device, for chunks of at most `ring_spec.batch_size` images.
    """
    if ring_spec is None:
        openers = [partial(open_cpu_handler, handler, is_first=not number) for number in range(num_workers)]
        return WorkerPool([openers], timeout_s)
    from infer_app.predict.workers.shared_ring import Ring  # loads numpy

    ring = Ring(slots_for(num_workers, len(ring_spec.devices)), ring_spec.batch_size, ring_spec.size)
    loaders = [partial(open_load_handler, handler, ring)] * num_workers
    predictors = [partial(open_predict_handler, handler, ring, device) for device in ring_spec.devices]
    return WorkerPool([loaders, predictors], timeout_s, ring)


@contextmanager
def open_local_executor(
    handler: HandlerSpec, num_workers: int, timeout_s: float, ring_spec: RingSpec | None = None
) -> Iterator[Executor]:
    """Open the `cpu` executor, or with a ring the `cuda` executor. `num_workers` 0: one for each core."""
    num_cores = usable_cores()
    num_workers = num_workers or num_cores
    with open_pool(handler, num_workers, timeout_s, ring_spec) as pool:
        of_run = handler, pool, num_cores, num_workers
        if ring_spec is None:
            yield Executor("cpu", "cpu", *of_run)
        else:
            devices = ring_spec.devices
            yield Executor("cuda", ", ".join(devices), *of_run, len(devices), ring_spec.batch_size)


@contextmanager
def open_ray_executor(
    handler: HandlerSpec, num_workers: int, timeout_s: float, spec: RaySettings, ring_spec: RingSpec | None = None
) -> Iterator[Executor]:
    """Connect to the cluster. Each actor has `num_workers` workers; 0: one for each of its CPUs.

    Raises UsageError without Ray, if the cluster can't be reached, or if no node has room for an actor.
    """
    from infer_app.predict.cluster.actor_pool import ActorPool
    from infer_app.predict.cluster.node_actor import ActorSpec
    from infer_app.predict.cluster.ray_cluster import Cluster, no_room

    open_actor_pool = partial(open_pool, timeout_s=timeout_s, ring_spec=ring_spec)
    threads = min(handler.num_threads, spec.num_cpus or handler.num_threads)
    with closing(Cluster(spec, max(usable_cores(), spec.num_cpus, num_workers * threads))) as cluster:
        # The smallest node that offers any: a head node often offers none.
        smallest = next((node.num_cpus for node in cluster.nodes() if node.num_cpus), 1)
        num_cpus = spec.num_cpus or num_workers * threads or smallest
        workers = num_workers or max(1, num_cpus // threads)
        handler = replace(handler, num_threads=threads)
        actor_spec = ActorSpec(handler, workers, open_actor_pool, log.getEffectiveLevel())
        with closing(ActorPool(cluster, spec, actor_spec, num_cpus)) as pool:
            if not pool.num_actors:
                raise UsageError(*no_room(num_cpus, spec.num_gpus, cluster.nodes()))
            yield Executor(
                name="ray",
                device="cpu" if ring_spec is None else ", ".join(ring_spec.devices),
                handler=handler,
                pool=pool,
                num_cores=pool.num_actors * pool.num_cpus,
                num_workers=pool.num_actors * pool.workers_each,
                num_devices=0 if ring_spec is None else pool.num_actors * len(ring_spec.devices),
                chunk_size=None if ring_spec is None else ring_spec.batch_size,
                num_nodes=pool.num_nodes,
            )


def open_executor(
    loaded: LoadedSettings, artifacts: Sequence[Artifact], plans: Sequence[ExecutionPlan], limits: ReadLimits
) -> AbstractContextManager[Executor]:
    """Open the executor that runs the plans on images within the limits."""
    images = loaded.images
    lead = next(plan for plan in plans if not plan.is_idle)
    spec = HandlerSpec(
        models=tuple(
            ModelSpec.of(artifact, plan.variant, plan.batch_size)
            for artifact, plan in zip(artifacts, plans, strict=True)
        ),
        read=limits,
        max_pixels=images.max_pixels,
        num_threads=lead.threads,
        detector=detector_of(artifacts),
        second_networks=second_networks_of(artifacts),
        idle=frozenset(number for number, plan in enumerate(plans) if plan.is_idle),
    )
    executor, of_all = loaded.run.executor, (spec, lead.workers, images.timeout_s)
    ring_spec = RingSpec(SLOT_IMAGES, artifacts[0].manifest.recipe.size, (plans[0].device,))
    if executor == "ray":
        return open_ray_executor(*of_all, loaded.ray, ring_spec if loaded.ray.num_gpus else None)
    has_ring = executor == "cuda" or (executor == "auto" and plans[0].device == "cuda")
    return open_local_executor(*of_all, ring_spec if has_ring else None)
