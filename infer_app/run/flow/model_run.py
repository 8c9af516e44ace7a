"""One model's part of a run over a day: its failure budget, its sink and its counts."""

import logging
from collections import Counter
from collections.abc import Iterable

from infer_app.base.domain import Broken, ChunkResult, Reason
from infer_app.base.telemetry.log import names_and_ids
from infer_app.run.flow.failure_budget import FailureBudget
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.runs import RunModel
from infer_app.tables.results.sink import Sink

log = logging.getLogger(__name__)


class ModelRun:
    """Writes a model's results and counts its predictions and rejections."""

    def __init__(self, number: int, model: RunModel, run_id: str, database: Database, budget: FailureBudget) -> None:
        self.number = number  # of the model, among those of the run
        self.model = model
        self.run_id = run_id
        self.predicted = 0
        self.asked = 0  # images that the network was given, or that could not be read for it
        self.failed = 0  # of these, the rejected ones
        self.nearly_black = 0
        self.reasons: Counter[str] = Counter()
        self._sink = Sink(database, model.model_id, model.variant, run_id, model.detector_id)
        self.budget = budget
        self._of_detector: list[Broken] = []

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def selected(self) -> int:
        return self.predicted + self.rejected

    @property
    def stopped(self) -> str | None:
        """Return the reason why no more of its images should be run, or None."""
        return self.budget.stopped

    def commit(self, result: ChunkResult, of_detector: frozenset[str] = frozenset()) -> frozenset[str]:
        """Write the part of the model's results of a chunk that the failure budget admits.

        Images that the detector failed on, by id in `of_detector`, were never given to a second network. They are held
        until the detector's own failures are settled. Return the ids of images whose results the database refused.
        """
        own = result.of_model(self.number)
        self.nearly_black += own.num_dim
        self._of_detector += [broken for broken in own.broken if broken.ref.image_id in of_detector]
        return self._write(self.budget.admit(own.without(of_detector)))

    def write_known(self, result: ChunkResult) -> None:
        """Write the model's results of images that it was not given."""
        if (known := result.of_model(self.number)).num_images:
            self._commit(known)

    def settle(self, is_detector_stopped: bool = False) -> None:
        """Write at the end of the day the results that were held until then."""
        self._write(self.budget.settle())
        if not is_detector_stopped:
            self.write_known(ChunkResult(0, (), tuple(self._of_detector), (self.number,)))

    def _commit(self, result: ChunkResult) -> ChunkResult:
        written = self._sink.commit_chunk(result)
        self.predicted += len(written.predictions)
        self.reasons.update(broken.reason.value for broken in written.broken)
        return written

    def _write(self, admitted: Iterable[ChunkResult]) -> frozenset[str]:
        was_stopped = self.stopped is not None
        refused = set[str]()
        for result in admitted:
            if result.num_images:
                written = self._commit(result)
                self.asked += written.num_asked
                self.failed += len(written.broken)
                refused |= {broken.ref.image_id for broken in written.broken if broken.reason is Reason.WRITE_ERROR}
        if self.stopped and not was_stopped:
            of_model = names_and_ids([(self.model.name, self.model.model_id)])
            log.error("%s: %s", self.model.name, self.stopped, extra=of_model)
        return frozenset(refused)
