"""The `ray` executor: actors on the nodes of a cluster, each with an executor of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from infer_app.cluster.actor_pool import ActorPool, no_room
from infer_app.cluster.node_actor import ActorSpec
from infer_app.cluster.ray_cluster import Cluster, ClusterSpec
from infer_app.domain import Chunk, ChunkResult
from infer_app.errors import UsageError
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.machine import usable_cores

log = logging.getLogger(__name__)


class RayExecutor:
    """Runs chunks by actors on a cluster. Actors start with the first chunk and end with the `with` block."""

    name = "ray"
    chunk_size: int | None = None

    def __init__(
        self,
        handler: HandlerSpec,
        num_workers: int,
        timeout_s: float,
        spec: ClusterSpec,
        slot: tuple[int, int, str] | None = None,
    ) -> None:
        """Connect to the cluster. Each actor has `num_workers` workers; 0: one for each of its CPUs.

        With a `slot` (batch size, image size, device) actors are `cuda` executors. Raises UsageError if the cluster
        can't be reached or if no node has room for an actor.
        """
        self.handler = handler
        self.device = "cpu" if slot is None else slot[2]
        self.device_stages = frozenset() if slot is None else frozenset({"model", "outputs"})
        self.chunk_size = slot and slot[0]
        self.num_threads = handler.num_threads
        local_cpus = max(usable_cores(), spec.num_cpus, num_workers * handler.num_threads)
        self._spec = spec
        with ExitStack() as closing:
            self.cluster = Cluster(spec, local_cpus)
            closing.callback(self.cluster.close)
            self._num_cpus = spec.num_cpus or num_workers * handler.num_threads or self._smallest_node()
            self._workers_each = num_workers or max(1, self._num_cpus // handler.num_threads)
            level = log.getEffectiveLevel()
            self._actor_spec = ActorSpec(handler, self._workers_each, timeout_s, level, slot)
            self._pool = ActorPool(self.cluster, spec, self._actor_spec, self._num_cpus)
            self._num_actors = self._pool.wanted()
            if not self._num_actors:
                raise UsageError(*no_room(self._num_cpus, spec.num_gpus, self.cluster.nodes()))
            closing.callback(self._pool.close)
            self._closing = closing.pop_all()

    @property
    def num_cores(self) -> int:
        return self._num_actors * self._num_cpus

    @property
    def num_workers(self) -> int:
        return self._num_actors * self._workers_each

    @property
    def num_predictors(self) -> int:
        return self._num_actors * (1 if self.device_stages else self._workers_each)

    @property
    def num_nodes(self) -> int:
        return len(self.cluster.nodes())

    def run(self, chunks: Iterable[Chunk]) -> Iterator[ChunkResult]:
        """Yield results, with every ref of every chunk in exactly one of them. Raises what `WorkerPool.run` raises."""
        return self._pool.run(iter(chunks))

    def worker_pids(self) -> list[int]:
        return self._pool.workers()

    def close(self) -> None:
        """End the actors; the next run starts others."""
        self._pool.close()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _smallest_node(self) -> int:
        """Return the CPUs of the smallest node that offers any: a head node often offers none."""
        return next((node.num_cpus for node in self.cluster.nodes() if node.num_cpus), 1)
