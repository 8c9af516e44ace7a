"""Audit of stored rows: a random share of them is predicted again, and must be what it was."""

from __future__ import annotations

import heapq
import random
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from infer_app.artifact.model_names import Version
from infer_app.ask.compare.predict_again import find_version, plan_again, stored_objects
from infer_app.ask.compare.row_comparison import Changed, RowComparison, pair_answers
from infer_app.base.day import Day
from infer_app.base.domain import NOT_READ, Broken, ImageRef
from infer_app.base.errors import ModelChanged, ModelError, PixelsChanged, UsageError
from infer_app.base.locations import shown as shown_location
from infer_app.base.settings.load import LoadedSettings
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.rows.image_history import ModelHistory, read_history
from infer_app.tables.rows.results import Result

ROWS_AT_ONCE = 5_000  # in memory, with their vectors and objects
CONFIDENCE = 0.99  # that the sample would have had a wrong row

Key = tuple[int, str]  # the number of a picture, and the id of a model


@dataclass(frozen=True, slots=True)
class Amount:
    """How many rows to take: a number, or of all of them a share, 0-1."""

    number: int | None = None
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Amount:
        """Parse "200" or "1%". Raises ValueError for any other text, and for none or more than all."""
        try:
            amount = cls(share=float(text[:-1]) / 100) if text.endswith("%") else cls(number=int(text))
        except ValueError:
            raise ValueError(f"{text!r} is neither a share such as 1% nor a number such as 200") from None
        if not (0 < amount.share <= 1 or (amount.number or 0) > 0):
            raise ValueError(f"{text} is not above 0 and at most 100%")
        return amount


def choose(keys: Iterable[Key], amount: Amount) -> tuple[list[Key], int]:
    """Choose some of the keys at random, at least one, and count all of them. Only those chosen stay in memory."""
    count, lowest = 0, list[tuple[float, Key]]()  # the one that was drawn, for a share of few keys

    def draw() -> Iterator[tuple[float, Key]]:
        nonlocal count, lowest
        for key in keys:
            count, drawn = count + 1, (random.random(), key)
            lowest = [min([drawn, *lowest])]
            yield drawn

    if amount.number is not None:
        chosen = heapq.nsmallest(amount.number, draw())
    else:
        chosen = [drawn for drawn in draw() if drawn[0] < amount.share]
    return [key for _, key in chosen or lowest], count


class StoredRow(NamedTuple):
    """A prediction to be made again."""

    ref: ImageRef
    history: ModelHistory
    stored: Result  # that of the history


CAUSES: dict[type[ModelError], Changed] = {ModelChanged: Changed.NETWORK, PixelsChanged: Changed.DECODER}


@dataclass(frozen=True, slots=True)
class Difference:
    """A stored row that is not what its network gives for its picture."""

    image_id: str
    location: str | None
    model: str
    model_id: str
    cause: Changed
    detail: str


@dataclass(frozen=True, slots=True)
class Answers:
    """The stored result of an image, and what its network gives now."""

    model: str
    model_id: str
    variant: str  # the one that ran
    instead_of: str | None  # that of the stored row, if it can't run here
    why: str | None  # it can't run here
    pairs: tuple[tuple[str, str], ...]  # stored and now, of the image or of each object


@dataclass(slots=True)
class ReplayAudit:
    """What became of the rows that were predicted again."""

    num_rows: int  # stored, of which some were chosen
    num_chosen: int
    num_compared: int = 0
    differences: list[Difference] = field(default_factory=list)
    not_compared: Counter[str] = field(default_factory=Counter)  # by why
    answers: list[Answers] | None = None  # of a single image

    @property
    def undetected_share(self) -> float | None:
        """Return the share of wrong rows that a sample of this size has one of with 99 % probability; None: no row.

        Of n rows none is wrong with probability (1 - share)^n, or less if n is not small against all rows.
        """
        if not self.num_compared:
            return None
        is_all = self.num_compared == self.num_rows
        return 0.0 if is_all else float(1 - (1 - CONFIDENCE) ** (1 / self.num_compared))

    def to_json(self) -> dict[str, object]:
        found = asdict(replace(self, not_compared=Counter()))  # whose copy would count the pairs
        return found | {"not_compared": dict(self.not_compared), "undetected_share": self.undetected_share}


def audit_by_replay(
    loaded: LoadedSettings, project: ProjectDatabase, versions: Sequence[Version], amount: Amount, day: Day | None
) -> ReplayAudit:
    """Predict a random share of the stored rows again, of a day or of all, and compare them.

    Raises what opening an executor raises, except ModelError: that is told of the model's rows.
    """
    names = {model_id: name for name, model_id in versions}
    keys, num_rows = choose(project.stream_keys(list(names), day), amount)
    audit = ReplayAudit(num_rows, len(keys))
    listed = project.source.find_listed({number for number, _ in keys})
    for first in range(0, len(keys), ROWS_AT_ONCE):
        rows = list[StoredRow]()
        for number, model_id in keys[first : first + ROWS_AT_ONCE]:
            if location := listed.get(number):
                rows += _rows_of(project, (names[model_id], model_id), number, location)
            else:
                audit.not_compared["the source no longer lists the image"] += 1
        _audit(loaded, audit, rows)
    return audit


def replay_image(
    loaded: LoadedSettings, project: ProjectDatabase, versions: Sequence[Version], image_id: str
) -> ReplayAudit:
    """Predict an image, or all that have its id, again by each version that has a prediction, and compare them.

    Raises UsageError without one, and what `audit_by_replay` raises.
    """
    listed = list(dict.fromkeys(location for location, _ in project.source.find_by_id(image_id)))
    numbers = {project.source.find_picture(image_id, location): location for location in listed}
    places = [(number, location) for number, location in numbers.items() if number is not None]
    rows = [row for version in versions for place in places for row in _rows_of(project, version, *place)]
    if not rows:
        why = "it has no prediction" if listed else "the source lists no such image"
        hint = f"`infer explain --image {shlex.quote(image_id)}` tells of it"
        raise UsageError(f"image {image_id!r} can't be predicted again: {why}", hint)
    audit = ReplayAudit(len(rows), len(rows), answers=[])
    _audit(loaded, audit, rows)
    return audit


def _audit(loaded: LoadedSettings, audit: ReplayAudit, rows: Iterable[StoredRow]) -> None:
    groups = defaultdict[tuple[Version, str, str | None], list[StoredRow]](list)
    for row in rows:
        version = row.history.model, row.history.model_id
        groups[version, row.stored.variant, row.stored.detector_id].append(row)
    for (version, *_), some in groups.items():
        _audit_group(loaded, audit, version, some)


def _rows_of(project: ProjectDatabase, version: Version, number: int, location: str) -> Iterator[StoredRow]:
    """Yield the stored row of a picture, which is listed at a location, if there is one."""
    for history in read_history(project.database, [version], number):
        if history.prediction is not None:
            yield StoredRow(ImageRef(history.prediction.image_id, location), history, history.prediction)


def _audit_group(loaded: LoadedSettings, audit: ReplayAudit, version: Version, rows: Sequence[StoredRow]) -> None:
    """Compare the rows of one variant of one version, which are of the objects of one version of a detector, if any."""
    stored = rows[0].stored
    try:
        plan = plan_again(loaded, find_version(loaded, version), stored, loaded.run.workers)
        results = plan.predict([one.ref for one in rows], stored_objects((one.ref, one.history) for one in rows))
        comparison = RowComparison(plan, stored.variant)
    except ModelError as error:
        cause = CAUSES.get(type(error))
        if cause is None:  # it is not there, or can't run here
            audit.not_compared[f"{error.message} ({error.hint})" if error.hint else error.message] += len(rows)
            return
        audit.num_compared += len(rows)
        audit.differences += [_difference(one, version, cause, error.message) for one in rows]
        return
    for one in rows:
        now = results[one.ref]
        if audit.answers is not None:
            pairs = tuple(pair_answers(one.stored, one.history.objects or (), now))
            audit.answers.append(Answers(*version, plan.variant, plan.instead_of, plan.why, pairs))
        if isinstance(now, Broken) and now.reason in NOT_READ:
            audit.not_compared[f"its file can't be read: {now.reason}"] += 1
            continue
        difference = comparison.find(one.stored, one.history, now)
        if plan.instead_of and not (difference and difference[0] is Changed.PICTURE):
            same = "another answer" if difference else "the same answer"
            audit.not_compared[f"{same} in {plan.variant} instead of {stored.variant}, which can't run here"] += 1
            continue
        audit.num_compared += 1
        if difference:
            audit.differences.append(_difference(one, version, *difference))


def _difference(row: StoredRow, version: Version, cause: Changed, detail: str) -> Difference:
    return Difference(row.ref.image_id, shown_location(row.ref.location), *version, cause, detail)
