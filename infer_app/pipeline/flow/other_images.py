"""Reads other images where many of a day can't be read: is the storage gone, or are only these files?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from infer_app.database.project_database import ProjectDatabase
from infer_app.day import Day
from infer_app.domain import ImageRef
from infer_app.errors import InferError, StorageUnavailable
from infer_app.images.decode.formats import check_answer
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.read_image import refused_among
from infer_app.images.read.roots import is_other_there
from infer_app.locations import as_location
from infer_app.workers.isolated_call import STORAGE_TIMEOUT_S, run_in_process

SOME_DONE = 200  # images with results whose locations are checked if no other location is allowed
NEAR_IMAGES = 20  # of each of some days that are read if many images of a day are missing


@dataclass(frozen=True, slots=True)
class OtherImages:
    """Images of the days of a run, and of the days around the last one."""

    project: ProjectDatabase
    days: Sequence[Day]
    limits: ReadLimits

    def is_any_done_allowed(self) -> bool:
        """Return whether the location of an image of the days that has a result of any model is allowed."""
        done = self.project.ask(lambda: list(islice(self._done(), SOME_DONE)))
        if not done:
            return False
        try:  # in another process, since resolving links can hang
            return len(run_in_process(refused_among, done, self.limits, timeout_s=STORAGE_TIMEOUT_S)) < len(done)
        except InferError as error:
            raise StorageUnavailable(error.message, "is the image storage mounted? its images stay pending") from None

    def is_other_there(self, missing: str) -> bool | None:
        """Return whether an image predicted that day, or of days around it, can be read; None: no other is known."""
        others = self.project.ask(lambda: list(self._near()))
        try:  # in another process, since reading can hang
            return run_in_process(
                is_other_there, missing, others, self.limits, check_answer, timeout_s=STORAGE_TIMEOUT_S
            )
        except InferError:
            return False

    def _done(self) -> Iterator[ImageRef]:
        queries = self.project.day_queries
        for day in self.days:
            for row in chain(queries.read_predictions(day), queries.read_rejections(day)):
                yield ImageRef(row["image_id"], as_location(row["location"]))

    def _near(self) -> Iterator[str]:
        day = self.days[-1]
        for row in islice(self.project.day_queries.read_predictions(day), NEAR_IMAGES):
            yield as_location(row["location"])
        for number in (1, -1, 2, -2, 3, -3):
            page = next(iter(self.project.source.list_pages(day.before(number), NEAR_IMAGES)), ())
            yield from (as_location(row[1]) for row in page)
