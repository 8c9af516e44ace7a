"""What the days of a run share, for models that take the same pixels, or objects of the same pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from infer_app.base.errors import UsageError
from infer_app.base.settings.load import LoadedSettings
from infer_app.base.telemetry.display import Progress
from infer_app.predict.execution_plan import ExecutionPlan
from infer_app.predict.executors import Executor, open_executor
from infer_app.run.flow.run_plan import RunPlan, plan_models
from infer_app.run.stop import Stop
from infer_app.tables.choose_models import Group
from infer_app.tables.engine.connect import is_file
from infer_app.tables.project_database import ProjectDatabase, open_project_database, read_limits


@dataclass(frozen=True, slots=True)
class GroupRun:
    """The settings, the plan and what is open, while models run over several days."""

    loaded: LoadedSettings
    project: ProjectDatabase
    plan: RunPlan  # of a day that no run has begun
    executors: Executors
    stop: Stop
    progress: Progress
    may_split: bool = False  # whether its models can be run one by one


@contextmanager
def open_group(
    loaded: LoadedSettings, models: Group, stop: Stop, progress: Progress, *, read_only: bool = False
) -> Iterator[GroupRun]:
    """Open the database, and plan and open a day that no run has begun: what can't run here is found before any day.

    Raises what `open_project_database`, `plan_models` and `Executors.open` raise, and UsageError if the package that
    reads a remote place is not installed.
    """
    if places := loaded.remote_access.places:
        from infer_app.predict.images.read.remote import check_installed  # loading it takes a while

        for place in places:
            check_installed(place)
    with open_project_database(loaded, read_only) as project:
        plan = plan_models(loaded, models.artifacts)
        with Executors(loaded) as executors:
            executors.open(plan)  # no process starts before it gets a chunk
            yield GroupRun(loaded, project, plan, executors, stop, progress, models.may_split)


class Executors:
    """Keeps the executor of the last plan open. Another plan closes it first: two would need twice the memory."""

    def __init__(self, loaded: LoadedSettings) -> None:
        self._loaded = loaded
        self._opened: tuple[Sequence[ExecutionPlan], Executor] | None = None
        self._closing = ExitStack()

    def open(self, plan: RunPlan) -> Executor:
        """Return the executor of a plan; of one that takes no image, the one that is open.

        Raises what `open_executor` raises.
        """
        if self._opened is None or (plan.max_images != 0 and not self._serves(plan)):
            self.close()
            opening = open_executor(self._loaded, plan.artifacts, plan.executions, read_limits(self._loaded))
            executor = self._closing.enter_context(opening)
            check_nodes(self._loaded, executor.num_nodes)
            self._opened = plan.executions, executor
        return self._opened[1]

    def _serves(self, plan: RunPlan) -> bool:
        """Return whether what is open is for the plan; processes that were started may have a network too many."""
        assert self._opened is not None
        opened, executor = self._opened
        if opened == plan.executions or not executor.pool.pids():
            return opened == plan.executions
        pairs = zip(opened, plan.executions, strict=True)
        return all(one == other or replace(one, is_idle=True) == other for one, other in pairs)

    def end_workers(self) -> None:
        """End the processes of the executor that is open; its next chunks start others."""
        if self._opened is not None:
            self._opened[1].pool.close()

    def close(self) -> None:
        self._opened = None
        self._closing.close()

    def __enter__(self) -> Executors:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def check_nodes(loaded: LoadedSettings, num_nodes: int) -> None:
    """Raise UsageError if more than one node would need an SQLite file, for the results or for images' bytes."""
    read_by_nodes = [loaded.source_url] if loaded.source.bytes is not None else []
    if num_nodes > 1 and any(map(is_file, (loaded.database_url, *read_by_nodes))):
        raise UsageError(
            f"SQLite together with a Ray cluster of {num_nodes} nodes: its file is on this machine",
            'use PostgreSQL or MariaDB, or [ray] address = "local"',
        )
