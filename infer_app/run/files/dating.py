"""The times that new images get: those of their cameras, or of their files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from itertools import repeat

from infer_app.base.day import find_zone, naive
from infer_app.base.domain import CaptureTime, FileFacts, ImageFile
from infer_app.base.errors import ModelError, NoAnswer
from infer_app.base.printing import counted, one_line
from infer_app.base.settings.load import LoadedSettings
from infer_app.predict.images.read.local_files import hash_files
from infer_app.run.files.changed_files import AskStorage
from infer_app.run.files.registration import Registration
from infer_app.tables.cameras.picture_facts import FactRules
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import DatedImage, first_usual_time
from infer_app.tables.project_database import read_limits
from infer_app.tables.results.runs import last_start

log = logging.getLogger(__name__)

FIRST_DIGITAL = datetime(1995, 1, 1, tzinfo=UTC).timestamp()  # no camera wrote a file before
YEARS_S = 5 * 365 * 86400.0  # a clock that was reset begins so long before the other images, or longer
A_DAY_S = 86400.0  # so far may a camera's clock, or its zone, be ahead


class Dating:
    """Dates new images, and counts in `found` those whose time can't be right."""

    def __init__(self, loaded: LoadedSettings, database: Database, ask: AskStorage, found: Registration) -> None:
        self._loaded = loaded
        self._database = database
        self._ask = ask
        self._found = found
        self._rules = FactRules.of(loaded)

    def date_all(self, new: Sequence[ImageFile]) -> Sequence[DatedImage]:
        """Return new images with their own times: of their cameras, if [images] day says so, or of their files.

        If most are ahead of this machine's clock, and it is behind, these are left for a run that has the right time.
        """
        now = datetime.now(UTC)
        is_asked = self._loaded.images.day == "taken"
        taken: Sequence[CaptureTime | None] = self._read_times(new) if is_asked else [None] * len(new)
        zone = find_zone(self._loaded.run.time_zone)
        stated = [
            [seconds for seconds in (camera.timestamp(zone) if camera else None, file.modified) if seconds is not None]
            for file, camera in zip(new, taken, strict=True)
        ]
        latest = now.timestamp() + A_DAY_S
        ahead = [number for number, times in enumerate(stated) if min(times, default=0.0) > latest]
        if ahead and 2 * len(ahead) >= len(new) and self._is_behind(now):
            self._found.leave_for_right_clock(now, [new[number].location for number in ahead])
            kept = sorted({*range(len(new))} - {*ahead})
            new, stated = [new[number] for number in kept], [stated[number] for number in kept]
            taken = [taken[number] for number in kept]
        usual = self._first_usual(stated) if new else 0.0
        times = [self._time_of(file, one, now.timestamp(), usual) for file, one in zip(new, stated, strict=True)]
        queued_at = now.replace(tzinfo=None)
        return [
            DatedImage(file, at, queued_at, taken_at, self._camera(file))
            for file, at, taken_at in zip(new, times, taken, strict=True)
        ]

    def hash_changed(self, changed: Sequence[ImageFile]) -> Iterator[FileFacts]:
        """Yield the facts of known files as they are now, with their times where these are wanted."""
        log.info("%s with another size or time than before: comparing the content", counted(len(changed), "known file"))
        limits, is_asked = read_limits(self._loaded), self._loaded.images.day == "taken" or self._loaded.wants_facts
        hashed = self._ask(hash_files, [file.location for file in changed], limits)
        facts = list(filter(None, hashed))  # before the times: a file that changes in between is seen to have changed
        times = self._read_times(changed) if is_asked else repeat(None, len(changed))
        yield from (replace(now, taken=taken) for now, taken in zip(facts, times, strict=True))

    def _read_times(self, files: Sequence[ImageFile]) -> list[CaptureTime | None]:
        from infer_app.predict.images.decode.capture_time import read_capture_times

        paths = [self._loaded.path_map.to_local(file.location) for file in files]
        in_files = ask_times(partial(self._ask, read_capture_times), paths)
        pairs = zip(files, in_files, strict=True)
        return [in_file and self._rules.time_of(in_file, file.location) for file, in_file in pairs]

    def _camera(self, file: ImageFile) -> str | None:
        return self._rules.camera(None, file.location) if self._loaded.wants_facts else None

    def _is_behind(self, now: datetime) -> bool:
        """Return whether this machine's clock is behind that of a former run, or no image is known to compare with."""
        last = last_start(self._database)
        return self._first_known is None or (last is not None and last > now + timedelta(seconds=A_DAY_S))

    @cached_property
    def _first_known(self) -> datetime | None:
        return first_usual_time(self._database)

    def _first_usual(self, stated: Sequence[Sequence[float]]) -> float:
        """Return the time before which an image is years older than nearly all, of those that are known or else new."""
        own = sorted(times[0] for times in stated if times)
        first = self._first_known.timestamp() if self._first_known else own[len(own) // 2] if own else 0.0
        return first - YEARS_S

    def _time_of(self, file: ImageFile, stated: Sequence[float], now: float, usual: float) -> datetime:
        """Return the first of the times stated that can be right, in UTC; one in the future counts as now."""
        possible = [seconds for seconds in stated if FIRST_DIGITAL <= seconds <= now + A_DAY_S]
        if len(possible) < len(stated) or (possible and possible[0] < usual):
            self._found.num_wrong_clocks += 1
            self._found.wrong_clock = self._found.wrong_clock or [one_line(file.location)]
        seconds = (possible or list(stated[-1:]) or [now])[0]
        return _as_utc(min(max(seconds, 0.0), now))


def _as_utc(seconds: float) -> datetime:
    return naive(datetime.fromtimestamp(seconds, UTC))


def ask_times(
    ask: Callable[[Sequence[str]], Iterable[CaptureTime | None]], locations: Sequence[str]
) -> list[CaptureTime | None]:
    """Return what `ask` yields for each file, None of one that crashes its process. Raises NoAnswer."""
    times = list[CaptureTime | None]()
    while left := locations[len(times) :]:
        try:
            times.extend(ask(left))
        except NoAnswer:
            raise
        except ModelError:
            times.append(None)
    return times[: len(locations)]
