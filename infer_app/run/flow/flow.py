"""The flow of images through a run: selection, chunks, worker pool, outage guard, failure budgets, sinks.

`ModelRun` is one model's part of it; `FlowObserver` measures it from outside.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property

from infer_app.base.domain import Broken, ChunkResult, ImageRef, NewImage, Reason
from infer_app.base.telemetry.display import Advance
from infer_app.base.telemetry.log import names_and_ids
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.base.telemetry.tally import Tally
from infer_app.predict.chunking import ChunkSize, cut_into_chunks
from infer_app.predict.executors import Pool
from infer_app.run.flow.failure_budget import FailureBudget
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.runs import RunModel
from infer_app.tables.results.sink import Sink

log = logging.getLogger(__name__)

Guard = Callable[[Iterable[ChunkResult]], Iterator[ChunkResult]]


def run_flow(
    new: Iterable[NewImage],
    pool: Pool,
    guard: Guard,
    model_runs: Sequence[ModelRun],
    size: ChunkSize,
    observer: FlowObserver,
) -> None:
    """Predict the new images and commit the results, chunk by chunk."""
    chunks = cut_into_chunks(skip_stopped_models(new, model_runs), size)
    with closing(pool.run(chunks)) as results:  # if this day fails, the workers must have none of its chunks left
        for result in guard(results):
            with observer.commit(result):
                _commit(result, model_runs)
            size.learn(result)
    for model_run in model_runs:
        model_run.decide(
            any(one.budget.stopped for one in model_runs if one.model.model_id == model_run.model.detector_id)
        )


def _commit(result: ChunkResult, model_runs: Sequence[ModelRun]) -> None:
    """Write a chunk model by model, a second network's results only where its detector's objects could be written."""
    unwritten: dict[str | None, frozenset[ImageRef]] = {}
    rejected: dict[str | None, frozenset[ImageRef]] = {}
    for model_run in model_runs:
        model_id, detector_id = model_run.model.model_id, model_run.model.detector_id
        rejected[model_id] = frozenset(broken.ref for broken in result.of_model(model_run.number).broken)
        own = result.without(unwritten.get(detector_id, frozenset()))
        unwritten[model_id] = model_run.commit(own, rejected.get(detector_id, frozenset()))


def skip_stopped_models(new: Iterable[NewImage], model_runs: Sequence[ModelRun]) -> Iterator[NewImage]:
    """Skip the models whose failure budget is used up; `model_runs` are those that an image may be new for.

    With a detector that finds no more objects the second networks are skipped that would take them.
    """
    by_number = {one.number: one for one in model_runs}
    for image in new:
        stopped = {one.model.model_id for one in model_runs if one.budget.stopped is not None}
        wanted = tuple(number for number in image.model_indices if _is_wanted(image, by_number[number], stopped))
        if wanted:
            yield image if wanted == image.model_indices else replace(image, model_indices=wanted)
        elif len(stopped) == len(model_runs):
            return


def _is_wanted(image: NewImage, model_run: ModelRun, stopped: set[str]) -> bool:
    takes_objects_of = model_run.model.detector_id if image.objects is None else None
    return not {model_run.model.model_id, takes_objects_of} & stopped


class ModelRun:
    """Writes a model's results and counts its predictions and rejections."""

    def __init__(
        self,
        number: int,
        model: RunModel,
        run_id: str,
        database: Database,
        budget: FailureBudget,
        registered: bool = True,
    ) -> None:
        """Write the results of pictures that are `registered` or not, as `PictureRows` has it."""
        self.number = number  # of the model, among those of the run
        self.model = model
        self.run_id = run_id
        self.predicted = 0
        self.asked = 0  # images that the network was given, or that could not be read for it
        self.failed = 0  # of these, the rejected ones
        self.nearly_black = 0
        self.reasons: Counter[str] = Counter()
        self._database, self._registered = database, registered
        self.budget = budget
        self._of_detector: list[Broken] = []

    @cached_property
    def _sink(self) -> Sink:
        """Make the sink with the first result: its statements take 5 ms, and most days of a look-back have none."""
        model = self.model
        return Sink(self._database, model.model_id, model.variant, self.run_id, model.detector_id, self._registered)

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def selected(self) -> int:
        return self.predicted + self.rejected

    def commit(self, result: ChunkResult, of_detector: frozenset[ImageRef] = frozenset()) -> frozenset[ImageRef]:
        """Write the part of the model's results of a chunk that the failure budget admits.

        Images that the detector failed on, those of `of_detector`, were never given to a second network. They are held
        until the detector's own failures are decided on. Return the images whose results the database refused.
        """
        own = result.of_model(self.number)
        self.nearly_black += own.num_dim
        self._of_detector += [broken for broken in own.broken if broken.ref in of_detector]
        return self._write(self.budget.admit(own.without(of_detector)))

    def write_known(self, result: ChunkResult) -> None:
        """Write the model's results of images that it was not given."""
        if (known := result.of_model(self.number)).num_images:
            self._commit(known)

    def decide(self, is_detector_stopped: bool = False) -> None:
        """Write at the end of the day the results that were held until then."""
        self._write(self.budget.decide())
        if not is_detector_stopped:
            self.write_known(ChunkResult(0, (), tuple(self._of_detector), (self.number,)))

    def _commit(self, result: ChunkResult) -> ChunkResult:
        written = self._sink.commit_chunk(result)
        self.predicted += len(written.predictions)
        self.reasons.update(broken.reason.value for broken in written.broken)
        return written

    def _write(self, admitted: Iterable[ChunkResult]) -> frozenset[ImageRef]:
        was_stopped = self.budget.stopped is not None
        refused = set[ImageRef]()
        for result in admitted:
            if result.num_images:
                written = self._commit(result)
                self.asked += written.num_asked
                self.failed += len(written.broken)
                refused |= {broken.ref for broken in written.broken if broken.reason is Reason.WRITE_ERROR}
        if self.budget.stopped and not was_stopped:
            of_model = names_and_ids([(self.model.name, self.model.model_id)])
            log.error("%s: %s", self.model.name, self.budget.stopped, extra=of_model)
        return frozenset(refused)


class FlowObserver:
    """Measures the stages that run in this process, and adds them to what the workers measured of theirs."""

    def __init__(self, tally: Tally, advance: Advance) -> None:
        self._tally = tally
        self._advance = advance

    def select(self, pages: Iterator[Sequence[NewImage]]) -> Iterator[NewImage]:
        """Yield the images of all pages."""
        while True:
            clock = _clock()
            with clock.time("select"):
                page = next(pages, None)
            if page is None:
                return
            self._tally.add_page(len(page), clock)
            yield from page

    @contextmanager
    def commit(self, result: ChunkResult) -> Iterator[None]:
        """Measure the `with` block as the commit of a result, which counts if it succeeds."""
        clock = _clock()
        with clock.time("write"):
            yield
        self._tally.add(result, clock)
        self._advance(result)


def _clock() -> StageClock:
    return StageClock(time.thread_time)  # another thread draws the progress bar
