"""What the days of a run share, for models that take the same pixels, or objects of the same pictures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from infer_app.base.settings.load import LoadedSettings
from infer_app.run.flow.observer import Display
from infer_app.run.planning.open_executors import Executors
from infer_app.run.planning.run_plan import RunPlan, plan_models
from infer_app.run.stop import Stop
from infer_app.tables.choose_models import Group
from infer_app.tables.project_database import ProjectDatabase, open_project_database


@dataclass(frozen=True, slots=True)
class GroupRun:
    """The settings, the plan and what is open, while models run over several days."""

    loaded: LoadedSettings
    project: ProjectDatabase
    plan: RunPlan  # of a day that no run has begun
    executors: Executors
    stop: Stop
    display: Display
    may_split: bool = False  # whether its models can be run one by one


@contextmanager
def open_group(
    loaded: LoadedSettings, models: Group, stop: Stop, display: Display, *, read_only: bool = False
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
        with Executors(loaded, trace=display.trace is not None) as executors:
            executors.open(plan)  # no process starts before it gets a chunk
            yield GroupRun(loaded, project, plan, executors, stop, display, models.may_split)
