"""Opening of a pool of actors on a cluster."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from infer_app.cluster.actor_pool import ActorPool
from infer_app.cluster.node_actor import ActorSpec
from infer_app.cluster.ray_cluster import Cluster, ClusterSpec, Node, no_room
from infer_app.errors import UsageError
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.machine import usable_cores
from infer_app.workers.pool import WorkerPool

log = logging.getLogger(__name__)


@contextmanager
def open_actor_pool(
    handler: HandlerSpec, num_workers: int, spec: ClusterSpec, open_pool: Callable[[HandlerSpec, int], WorkerPool]
) -> Iterator[ActorPool]:
    """Connect to a cluster. Actors start with the first chunk, each with a pool of `num_workers` workers.

    `num_workers` 0: one for each of an actor's CPUs. Raises UsageError if the cluster can't be reached or if no node
    has room for an actor.
    """
    with closing(Cluster(spec, max(usable_cores(), spec.num_cpus, num_workers * handler.num_threads))) as cluster:
        num_cpus = spec.num_cpus or num_workers * handler.num_threads or _smallest(cluster.nodes())
        workers_each = num_workers or max(1, num_cpus // handler.num_threads)
        actor_spec = ActorSpec(handler, workers_each, open_pool, log.getEffectiveLevel())
        with closing(ActorPool(cluster, spec, actor_spec, num_cpus)) as pool:
            if not pool.num_actors:
                raise UsageError(*no_room(num_cpus, spec.num_gpus, cluster.nodes()))
            yield pool


def _smallest(nodes: Sequence[Node]) -> int:
    """Return the CPUs of the smallest node that offers any: a head node often offers none."""
    return next((node.num_cpus for node in nodes if node.num_cpus), 1)
