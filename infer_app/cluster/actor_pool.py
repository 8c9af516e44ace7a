"""The actors of a `ray` run, supervised from the driver: staffed, fed, heard, buried.

The same rules as between a supervisor and its workers, one level up: an actor has as many chunks as keep its workers
busy, one that dies is replaced and its chunks are done again, and how often that happened is counted here.
"""

from __future__ import annotations

import logging
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from infer_app.cluster.node_actor import ActorSpec, ExecutorActor, Opened, Reply
from infer_app.cluster.ray_cluster import Cluster, ClusterSpec, Node, import_ray
from infer_app.domain import Chunk, ChunkResult, FileFacts
from infer_app.errors import InferError, ModelError, UsageError
from infer_app.models.artifact.artifact import open_artifact
from infer_app.models.artifact.bundle import pack
from infer_app.workers.heartbeat import NOTHING, CurrentStep
from infer_app.workers.pool import LOOK_EVERY_S, TASKS_AHEAD
from infer_app.workers.retry_policy import Decision, ExitLimit, Task, WorkerExit, decide

log = logging.getLogger(__name__)

ROOM_LIMIT_S = 600.0  # for a first actor: an autoscaler has to find a machine, start it and install what it needs
COUNT_EVERY_S = 5.0  # between two looks at the room there is
WORKER_BITS = 32  # of a worker's number; the node's is above them
KILLED = WorkerExit(-signal.SIGKILL, False, CurrentStep(NOTHING, NOTHING, "", 0.0, FileFacts()))


class NodeActor(ExecutorActor):
    """One that knows its node."""

    def node_id(self) -> str:
        return str(import_ray().get_runtime_context().get_node_id())


class Actor:
    """One actor, and the tasks it was given, oldest first."""

    def __init__(self, handle: Any, opening: Any) -> None:
        self.handle = handle
        self.opening = opening  # what becomes ready once it is
        self.opened: Opened | None = None
        self.tasks: dict[Any, Task] = {}  # by what becomes ready with the answer


class ActorPool:
    """The actors of a run: staffed by the room there is, fed, heard, replaced."""

    def __init__(self, cluster: Cluster, spec: ClusterSpec, actor_spec: ActorSpec, num_cpus: int) -> None:
        self._ray = import_ray()
        self._cluster = cluster
        self._spec = spec
        self._actor_spec = actor_spec
        self._num_cpus = num_cpus
        self._tasks_each = TASKS_AHEAD * actor_spec.num_workers
        self._actors: list[Actor] = []
        self._parcels: Any = None
        self._queue: deque[Task] = deque()
        self._next_number = 0
        self._nodes: dict[str, str] = {}  # node id: its name, in the order of their numbers
        self._exits = ExitLimit(
            "actors", "is there memory enough on the nodes? `ray status` and Ray's logs say more; the rest is pending"
        )
        self._counted_at = 0.0
        self._room = 0

    def run(self, pending: Iterator[Chunk]) -> Iterator[ChunkResult]:
        self._exits.start_run()
        try:
            while self._feed(pending):
                yield from self._hear()
        finally:
            self._abandon()

    def wanted(self) -> int:
        """Actors that there should be: as many as were asked for, or as the nodes have room for by now."""
        if self._spec.actors:
            return self._spec.actors
        if time.monotonic() - self._counted_at > COUNT_EVERY_S:
            self._room = sum(self._fitting(node) for node in self._cluster.nodes())
            self._counted_at = time.monotonic()
        return self._room

    def workers(self) -> list[int]:
        return [
            self._worker_number(actor.opened, pid)
            for actor in self._actors
            if actor.opened is not None
            for pid in self._ray.get(actor.handle.worker_pids.remote())
        ]

    def close(self) -> None:
        """Also forgets the parcels: a model that is changed in the meantime is packed anew."""
        while self._actors:
            self._end(self._actors.pop())
        self._parcels = None

    def _fitting(self, node: Node) -> int:
        by_gpus = node.num_gpus / self._spec.num_gpus if self._spec.num_gpus else node.num_cpus
        return int(min(node.num_cpus // self._num_cpus, by_gpus))

    def _feed(self, pending: Iterator[Chunk]) -> bool:
        """Gives every open actor something to do, starting actors as needed; False once nothing is left."""
        wanted = max(self.wanted(), 1)
        in_hand = sum(len(actor.tasks) for actor in self._actors)
        while in_hand + len(self._queue) < wanted * self._tasks_each:
            if (chunk := next(pending, None)) is None:
                break
            self._queue.append(self._numbered(Task(0, chunk)))
        while len(self._actors) < min(wanted, in_hand + len(self._queue)):
            self._actors.append(self._start())
        for actor in sorted(filter(lambda actor: actor.opened, self._actors), key=lambda actor: len(actor.tasks)):
            while self._queue and len(actor.tasks) < self._tasks_each:
                task = self._queue.popleft()
                actor.tasks[actor.handle.process.remote(task.chunk)] = task
        return bool(self._queue) or any(actor.tasks for actor in self._actors)

    def _numbered(self, task: Task) -> Task:
        self._next_number += 1
        return replace(task, number=self._next_number)

    def _start(self) -> Actor:
        if self._parcels is None:
            models = self._actor_spec.handler.models
            parcels = [pack(open_artifact(model.artifact), model.variant) for model in models]
            self._parcels = self._ray.put(parcels)  # travels to each node once
        options = {
            "num_cpus": self._num_cpus,
            "num_gpus": self._spec.num_gpus,
            "max_concurrency": self._tasks_each + 2,  # and for opening, and for being asked
            "max_restarts": 0,  # ours are counted
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        handle = self._ray.remote(NodeActor).options(**options).remote(self._actor_spec, self._parcels)
        return Actor(handle, handle.opened.remote())

    def _hear(self) -> Iterator[ChunkResult]:
        """What has been said meanwhile, or in the next LOOK_EVERY_S."""
        self._check_room()
        said_by = {ref: actor for actor in self._actors for ref in actor.tasks}
        said_by |= {actor.opening: actor for actor in self._actors if actor.opened is None}
        refs = list(said_by)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=LOOK_EVERY_S)
        if ready and len(refs) > 1:
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        for ref in ready:
            if (actor := said_by[ref]) in self._actors:  # it may have been buried with another of its tasks
                yield from self._attend(actor, ref)

    def _attend(self, actor: Actor, ref: Any) -> Iterator[ChunkResult]:
        try:
            said: Opened | Reply = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:
            raise _in_our_words(error) from error
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            raise UsageError(f"[ray] runtime_env can't be set up: {error}", "see Ray's logs on that node") from error
        except self._ray.exceptions.RayError as error:
            yield from self._on_exit(actor, error)
            return
        if isinstance(said, Opened):
            actor.opened = said
            log.info("an actor is ready on %s", self._name(said))
            return
        assert actor.opened is not None
        del actor.tasks[ref]
        self._exits.on_result()
        for line in said.lines:
            line.write(node=self._name(actor.opened))
        yield from (self._as_seen_here(actor.opened, result) for result in said.results)

    def _as_seen_here(self, opened: Opened, result: ChunkResult) -> ChunkResult:
        """With its node, a number of its worker that no other node has, and times by this machine's clock."""
        worker = self._worker_number(opened, result.worker) if result.worker else 0
        ahead_s = opened.clock_s - (time.time() - time.monotonic())
        spans = tuple(replace(span, start_s=span.start_s + ahead_s) for span in result.spans)
        return replace(result, worker=worker, node=self._name(opened), spans=spans)

    def _worker_number(self, opened: Opened, pid: int) -> int:
        return (list(self._nodes).index(opened.node_id) << WORKER_BITS) + pid

    def _name(self, opened: Opened) -> str:
        """The host's, with a number where another node has it too."""
        if opened.node_id not in self._nodes:
            again = sum(name.partition("#")[0] == opened.host for name in self._nodes.values())
            self._nodes[opened.node_id] = f"{opened.host}#{again + 1}" if again else opened.host
        return self._nodes[opened.node_id]

    def _on_exit(self, actor: Actor, error: Exception) -> Iterator[ChunkResult]:
        """What it may have had in hand has one kill more; the next feeding starts a replacement."""
        where = self._name(actor.opened) if actor.opened else "a node, while it started"
        log.info("an actor ended on %s: %s", where, type(error).__name__)
        self._actors.remove(actor)
        self._end(actor)
        self._counted_at = 0.0  # its node may have gone with it
        self._exits.on_exit()
        tasks = list(actor.tasks.values())
        verdicts = [decide(task, KILLED) for task in tasks[: self._actor_spec.num_workers]]
        verdicts += [Decision(retry=(task,)) for task in tasks[self._actor_spec.num_workers :]]
        again = [self._numbered(task) for verdict in verdicts for task in verdict.retry]
        self._queue.extendleft(reversed(again))
        for task, verdict in zip(tasks, verdicts, strict=True):
            if verdict.broken:
                yield ChunkResult(task.chunk.number, (), verdict.broken, task.chunk.models)

    def _check_room(self) -> None:
        if self._exits.waited_s > ROOM_LIMIT_S and not any(actor.opened for actor in self._actors):
            raise UsageError(*no_room(self._num_cpus, self._spec.num_gpus, self._cluster.nodes()))

    def _abandon(self) -> None:
        """Ends the actors that still have something in hand: after an error or an early end nobody wants it."""
        self._queue.clear()
        for actor in [actor for actor in self._actors if actor.tasks or not actor.opened]:
            self._actors.remove(actor)
            self._end(actor)

    def _end(self, actor: Actor) -> None:
        try:
            self._ray.kill(actor.handle)
        except Exception:  # of a cluster that is gone: nothing of it is left to end
            log.debug("an actor could not be ended", exc_info=True)


def _in_our_words(error: Any) -> InferError:
    """What the actor raised; of a bug with its traceback."""
    cause = error.cause
    return cause if isinstance(cause, InferError) else ModelError(f"an actor failed: {cause!r}", str(error))


def no_room(num_cpus: int, num_gpus: float, nodes: Sequence[Node]) -> tuple[str, str]:
    """What to say, and what to do."""
    asked = f"{num_cpus} CPUs" + (f" and {num_gpus:g} GPUs" if num_gpus else "")
    there = ", ".join(f"{node.address}: {node.num_cpus} CPUs, {node.num_gpus:g} GPUs" for node in nodes)
    return f"no node has room for an actor of {asked} ({there})", "[ray] num_cpus, num_gpus or --workers; `ray status`"
