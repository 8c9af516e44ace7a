"""Keeps cameras, capture times and events of pictures up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial

from infer_app.base.day import Day
from infer_app.base.domain import CaptureTime
from infer_app.base.errors import NoAnswer, StorageUnavailable
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.workers.isolated_call import STORAGE_TIMEOUT_S, iterate_in_process
from infer_app.run.files.dating import ask_times
from infer_app.run.stop import Stop
from infer_app.tables.cameras.hidden_places import retire_places
from infer_app.tables.cameras.picture_facts import FactRules, fill_facts, give_up, without_camera
from infer_app.tables.cameras.place_events import place_all
from infer_app.tables.project_database import ProjectDatabase, read_limits


def note_facts(loaded: LoadedSettings, project: ProjectDatabase, days: Collection[Day]) -> None:
    """Store the facts of the pictures that runs of these days have read, and give them their events."""
    if not loaded.wants_facts:
        return
    rules = FactRules.of(loaded)
    for day in days:
        fill_facts(project.database, project.source, rules, day)
    if left := project.database.ask(partial(without_camera, source=project.source)):  # by a run that was killed
        fill_facts(project.database, project.source, rules, None)
        project.database.transact(partial(give_up, numbers=left))
    place_again(loaded, project)


def fill_all_facts(loaded: LoadedSettings, project: ProjectDatabase, stop: Stop) -> Counter[str]:
    """Look at all pictures again, also into files that were not read for it; return what `fill_facts` counted.

    What was done before it is stopped stays done. Raises StorageUnavailable if the files don't answer.
    """
    from infer_app.predict.images.decode.capture_time import look_into_files  # it loads Pillow

    limits, rules = read_limits(loaded), FactRules.of(loaded)

    def ask(locations: Sequence[str]) -> Iterator[CaptureTime | None]:
        return iterate_in_process(
            look_into_files, locations, limits, timeout_s=STORAGE_TIMEOUT_S, check=stop.raise_if_signalled
        )

    look = partial(ask_times, ask)
    try:
        stored = fill_facts(project.database, project.source, rules, None, look, stop.raise_if_signalled)
    except NoAnswer as error:
        raise StorageUnavailable(error.message, "is the image storage mounted?") from None
    place_again(loaded, project)
    return stored


def place_again(loaded: LoadedSettings, project: ProjectDatabase) -> None:
    """Give an event to every picture that waits for one, if there are to be events, and end hidden places."""
    project.database.transact(retire_places)
    if loaded.events.gap is not None:
        place_all(project.database, loaded.events.gap)
