"""The pool of Ray actors of a run: the driver starts them, gives them tasks, polls for results and replaces them.

It follows the rules of the worker pool. An actor gets as many chunks as keep its workers busy. An actor that dies is
replaced and its chunks are retried, and this module limits how often.
"""

import logging
import signal
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any

from infer_app.base.domain import Chunk, ChunkResult, FileFacts
from infer_app.base.errors import InferError, ModelError, UsageError
from infer_app.base.settings.sections import RaySettings
from infer_app.predict.cluster.node_actor import ActorSpec, ExecutorActor, Opened, Reply
from infer_app.predict.cluster.ray_cluster import Cluster, Node, import_ray, no_room
from infer_app.predict.workers.bundle import pack
from infer_app.predict.workers.heartbeat import NOTHING, CurrentStep
from infer_app.predict.workers.pool import POLL_INTERVAL_S, TASKS_AHEAD
from infer_app.predict.workers.retry_policy import Decision, ExitLimit, Task, WorkerExit, decide

log = logging.getLogger(__name__)

ROOM_LIMIT_S = 600.0  # for the first actor: an autoscaler has to find a machine, start it and install software
COUNT_EVERY_S = 5.0  # interval at which the room for actors is counted
WORKER_BITS = 32  # of a worker's number; the node's index is in the higher bits
KILLED = WorkerExit(-signal.SIGKILL, False, CurrentStep(NOTHING, NOTHING, "", 0.0, FileFacts()))


class NodeActor(ExecutorActor):
    """An actor's executor that knows the id of its node."""

    def node_id(self) -> str:
        return str(import_ray().get_runtime_context().get_node_id())


class Actor:
    """An actor and the tasks that it was given, oldest first."""

    def __init__(self, handle: Any, opening: Any) -> None:
        self.handle = handle
        self.opening = opening  # the ref that becomes ready when the actor is open
        self.opened: Opened | None = None
        self.tasks: dict[object, Task] = {}  # by the ref that becomes ready with the reply


class ActorPool:
    """Supervises the actors of a run, whose number follows the room on the cluster's nodes."""

    def __init__(self, cluster: Cluster, spec: RaySettings, actor_spec: ActorSpec, num_cpus: int) -> None:
        self.num_cpus = num_cpus  # of an actor
        self.workers_each = actor_spec.num_workers
        self._ray = import_ray()
        self._cluster = cluster
        self._spec = spec
        self._actor_spec = actor_spec
        self._tasks_each = TASKS_AHEAD * actor_spec.num_workers
        self._actors: list[Actor] = []
        self._bundles: object = None
        self._queue: deque[Task] = deque()
        self._nodes: dict[str, str] = {}  # node id: its name, in the order of their numbers
        self._exits = ExitLimit(
            "actors", "is there enough memory on the nodes? see `ray status` and Ray's logs; the rest stays pending"
        )
        self._counted_at = 0.0
        self._room = 0
        self.num_actors = self.wanted()  # when it was opened

    @property
    def num_nodes(self) -> int:
        return len(self._cluster.nodes())

    def run(self, chunks: Iterable[Chunk]) -> Generator[ChunkResult, None, None]:
        """Yield results in any order, with every ref of every chunk in one of them, as `WorkerPool.run` does."""
        pending = iter(chunks)
        self._exits.start_run()
        try:
            while self._dispatch(pending):
                yield from self._poll()
        finally:
            self._cancel()

    def wanted(self) -> int:
        """Return the wanted number of actors: the configured one, or as many as the nodes have room for now."""
        if self._spec.actors:
            return self._spec.actors
        if time.monotonic() - self._counted_at > COUNT_EVERY_S:
            self._room = sum(self._fitting(node) for node in self._cluster.nodes())
            self._counted_at = time.monotonic()
        return self._room

    def pids(self) -> list[int]:
        return [
            self._worker_number(actor.opened, pid)
            for actor in self._actors
            if actor.opened is not None
            for pid in self._ray.get(actor.handle.worker_pids.remote())
        ]

    def close(self) -> None:
        """End the actors and discard the bundles, so that a model that is changed meanwhile is bundled again."""
        while self._actors:
            self._end(self._actors.pop())
        self._bundles = None

    def _fitting(self, node: Node) -> int:
        by_gpus = node.num_gpus / self._spec.num_gpus if self._spec.num_gpus else node.num_cpus
        return int(min(node.num_cpus // self.num_cpus, by_gpus))

    def _dispatch(self, pending: Iterator[Chunk]) -> bool:
        """Give tasks to every open actor, starting actors as needed, and return whether anything is left to do."""
        wanted = max(self.wanted(), 1)
        num_given = sum(len(actor.tasks) for actor in self._actors)
        while num_given + len(self._queue) < wanted * self._tasks_each:
            if (chunk := next(pending, None)) is None:
                break
            self._queue.append(Task(0, chunk))
        while len(self._actors) < min(wanted, num_given + len(self._queue)):
            self._actors.append(self._start())
        for actor in sorted(filter(lambda actor: actor.opened, self._actors), key=lambda actor: len(actor.tasks)):
            while self._queue and len(actor.tasks) < self._tasks_each:
                task = self._queue.popleft()
                actor.tasks[actor.handle.process.remote(task.chunk)] = task
        return bool(self._queue) or any(actor.tasks for actor in self._actors)

    def _start(self) -> Actor:
        if self._bundles is None:
            models = self._actor_spec.handler.models
            bundles = [pack(model.open(), model.variant) for model in models]
            self._bundles = self._ray.put(bundles)  # is sent to each node once
        options = {
            "num_cpus": self.num_cpus,
            "num_gpus": self._spec.num_gpus,
            "max_concurrency": self._tasks_each + 2,  # two more: for `opened` and `worker_pids`
            "max_restarts": 0,  # this pool restarts and counts them
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        handle = self._ray.remote(NodeActor).options(**options).remote(self._actor_spec, self._bundles)
        return Actor(handle, handle.opened.remote())

    def _poll(self) -> Iterator[ChunkResult]:
        """Wait for a reply of any actor, up to POLL_INTERVAL_S, and yield the results that have arrived."""
        self._check_room()
        actor_by_ref = {ref: actor for actor in self._actors for ref in actor.tasks}
        actor_by_ref |= {actor.opening: actor for actor in self._actors if actor.opened is None}
        refs = list(actor_by_ref)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=POLL_INTERVAL_S)
        if ready and len(refs) > 1:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            if (actor := actor_by_ref[ref]) in self._actors:  # it may have been removed after an error of another task
                yield from self._handle_reply(actor, ref)

    def _handle_reply(self, actor: Actor, ref: object) -> Iterator[ChunkResult]:
        try:
            reply: Opened | Reply = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise _infer_error(error) from error
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise UsageError(f"[ray] runtime_env can't be set up: {error}", "see Ray's logs on that node") from error
        except self._ray.exceptions.RayError as error:
            yield from self._on_exit(actor, error)
            return
        if isinstance(reply, Opened):
            actor.opened = reply
            log.info("an actor is ready on %s", self._name(reply))
            return
        assert actor.opened is not None
        del actor.tasks[ref]
        self._exits.on_result()
        for line in reply.lines:
            line.write(node=self._name(actor.opened))
        yield from (self._localised(actor.opened, result) for result in reply.results)

    def _localised(self, opened: Opened, result: ChunkResult) -> ChunkResult:
        """Return the result with its node and a worker number that is unique in the cluster."""
        worker = self._worker_number(opened, result.worker) if result.worker else 0
        return replace(result, worker=worker, node=self._name(opened))

    def _worker_number(self, opened: Opened, pid: int) -> int:
        return (list(self._nodes).index(opened.node_id) << WORKER_BITS) + pid

    def _name(self, opened: Opened) -> str:
        """Return the host name of the actor's node, with a number if another node has the same name."""
        if opened.node_id not in self._nodes:
            num_same = sum(name.partition("#")[0] == opened.host for name in self._nodes.values())
            self._nodes[opened.node_id] = f"{opened.host}#{num_same + 1}" if num_same else opened.host
        return self._nodes[opened.node_id]

    def _on_exit(self, actor: Actor, error: Exception) -> Iterator[ChunkResult]:
        """Retry or reject the tasks that its workers may have processed, and queue the others again.

        The next dispatch starts a replacement.
        """
        where = self._name(actor.opened) if actor.opened else "a node, while it started"
        log.info("an actor ended on %s: %s", where, type(error).__name__)
        self._actors.remove(actor)
        self._end(actor)
        self._counted_at = 0.0  # its node may have gone with it
        self._exits.on_exit()
        tasks = list(actor.tasks.values())
        decisions = [decide(task, KILLED) for task in tasks[: self._actor_spec.num_workers]]
        decisions += [Decision(retry=(task,)) for task in tasks[self._actor_spec.num_workers :]]
        retries = [task for decision in decisions for task in decision.retry]
        self._queue.extendleft(reversed(retries))
        for task, decision in zip(tasks, decisions, strict=True):
            if decision.broken:
                yield ChunkResult(task.chunk.number, (), decision.broken, task.chunk.model_indices)

    def _check_room(self) -> None:
        if self._exits.waited_s > ROOM_LIMIT_S and not any(actor.opened for actor in self._actors):
            raise UsageError(*no_room(self.num_cpus, self._spec.num_gpus, self._cluster.nodes()))

    def _cancel(self) -> None:
        """End the actors that still have a task; after an error or an early end their results are not needed."""
        self._queue.clear()
        for actor in [actor for actor in self._actors if actor.tasks or not actor.opened]:
            self._actors.remove(actor)
            self._end(actor)

    def _end(self, actor: Actor) -> None:
        try:
            self._ray.kill(actor.handle)
        except Exception:  # the cluster is gone, and the actor with it
            log.debug("an actor could not be ended", exc_info=True)


def _infer_error(error: Any) -> InferError:
    """Return the error that the actor raised; for a bug with its traceback."""
    cause = error.cause
    return cause if isinstance(cause, InferError) else ModelError(f"an actor failed: {cause!r}", str(error))
