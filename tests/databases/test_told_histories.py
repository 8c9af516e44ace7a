"""Random nights: whatever tells of a day agrees with an oracle that keeps what has happened to each image."""

import random
from dataclasses import dataclass, field
from datetime import datetime

import pytest
from sqlalchemy import delete

from infer_app.ask.day_report import gather
from infer_app.base.domain import Broken, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.base.errors import most_severe
from infer_app.tables.day.facts import DayReader
from infer_app.tables.day.told import current_notices
from infer_app.tables.day.verdict import judge
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.schema import pictures, predictions, rejections
from tests.conftest import MODEL
from tests.databases.conftest import only
from tests.support.nights import DAY, KILLED, Nights, failed
from tests.support.results import commit

STEPS = 40
LOOK_BACK = 3


@dataclass
class Image:
    number: int
    ago: int
    result: str = ""  # predicted or rejected
    is_missing: bool = False
    is_replaced: bool = False


@dataclass
class History:
    """Nights that are drawn, and what each image and run has become."""

    nights: Nights
    draw: random.Random
    images: list[Image] = field(default_factory=list)
    runs: dict[int, list[dict]] = field(default_factory=dict)  # by day, the newest last

    def step(self):
        getattr(self, self.draw.choice(["come", "come", "run", "run", "run", "repair", "change", "delete"]))()

    def come(self):
        ago, count = self.draw.choice([0, 0, 0, 1, 3, 4, 30]), self.draw.choice([1, 3, 40])
        first = self.nights.num_images + 1
        self.nights.images(new=count, ago=ago)
        self.images += [Image(first + n, ago) for n in range(count)]

    def run(self):
        """Predict or reject some of the pending images of a day, and end in one of many ways."""
        ago = self.draw.choice([0, 0, 1, 30])
        pending = [one for one in self.images if one.ago == ago and not one.result]
        ends = [{}, {}, {"exit_code": 75}, {"exit_code": 143}, KILLED, failed(14), failed(10)]
        end = self.draw.choice(ends)
        done = self.draw.sample(pending, self.draw.randint(0, len(pending)))
        if self.draw.random() < 0.2:
            end, done = {"exit_code": 3, "error": "the model failed on most"}, []
        share = self.draw.choice([0.0, 0.02, 0.5])
        for one in done:
            one.result = "rejected" if self.draw.random() < share else "predicted"
        facts = FileFacts(7, 1.0, "ab" * 32)
        by = {name: [one for one in done if one.result == name] for name in ("predicted", "rejected")}
        refs = {one.number: ImageRef(str(one.number), f"/cam/{one.number}.jpg") for one in done}
        good = [Prediction(refs[one.number], Output("cat", 0.9), facts) for one in by["predicted"]]
        bad = [Broken(refs[one.number], Reason.CORRUPT, "no", "decode", facts, "jpg 9") for one in by["rejected"]]
        commit(self.nights.database, good, bad, self.nights.run_id)
        counts = {"selected": len(done), "predicted": len(good), "rejected": len(bad)}
        row = {"state": "done", "exit_code": 0, "error": None} | end | counts
        self.nights.run(ago, **row)
        self.runs.setdefault(ago, []).append(row)

    def repair(self):
        """Let all files that were rejected be others."""
        for one in self.images:
            one.result = "" if one.result == "rejected" else one.result
        self._write(delete(rejections))

    def change(self):
        """Let a predicted image's file be gone, or be another one, or be back."""
        done = [one for one in self.images if one.result == "predicted"]
        if not done:
            return
        one = self.draw.choice(done)
        one.is_missing, one.is_replaced = self.draw.choice([(True, False), (False, True), (False, False)])
        values = {"missing_since": datetime(2026, 11, 1) if one.is_missing else None}
        values["sha256"] = "cd" * 32 if one.is_replaced else None
        self._write(pictures.update().where(pictures.c.id == one.number).values(values))

    def delete(self):
        """Delete some images with their results."""
        for one in self.draw.sample(self.images, min(3, len(self.images))):
            self.images.remove(one)
            for table in (predictions, rejections):
                self._write(delete(table).where(table.c.picture == one.number))
            self._write(delete(pictures).where(pictures.c.id == one.number))

    def _write(self, statement):
        with self.nights.database.write() as connection:
            connection.execute(statement)

    def count(self, ago, result):
        return sum(one.ago == ago and one.result == result for one in self.images)

    def verdict(self):
        """The state, the level, the exit code and the remarks of the day, by docs/how-to/report.md."""
        predicted, rejected, pending = (self.count(0, result) for result in ("predicted", "rejected", ""))
        runs = self.runs.get(0, [])
        last = runs[-1] if runs else None
        done_something = [one for one in runs if one["selected"] or one["exit_code"] or one["state"] != "done"]
        is_stopped = bool(pending and done_something and done_something[-1].get("error") and
                          done_something[-1]["exit_code"] == 3)  # fmt: skip
        is_too_many = rejected > max(10, 0.05 * (predicted + rejected))
        older = sum(one.ago > 0 and not one.result for one in self.images)
        notes, codes, level, state = [], [], "good", "never run"
        if last:
            is_left = pending or not predicted + rejected
            state = {"done": "pending" if pending else "done"}.get(last["state"], "failed" if is_left else "done")
            codes.append(last["exit_code"])
        if last and last["state"] != "done":
            notes.append("the last run died" if last["exit_code"] is None else
                         f"the last run failed: exit code {last['exit_code']}")  # fmt: skip
            level = "failed" if state == "failed" else "attention"
        elif last and (last["exit_code"] == 3 or not pending):
            codes = [0]
        if is_stopped or is_too_many:
            notes.append(f"too many rejected{' or failed' if is_stopped else ''}: exit code 3")
            codes.append(3)
        notes += [f"{pending:,} pending"] if pending else []
        if last and last["state"] == "done" and pending and last["exit_code"] not in (0, 3):
            notes.append(f"the last run ended early: exit code {last['exit_code']}")
        notes += [f"{older:,} of earlier days pending"] if older else []
        level = "attention" if notes and level == "good" else level
        ended = [one for one in codes if one is not None]
        code = most_severe(ended) if ended else None
        return state, level, code, tuple(notes)

    def kinds(self):
        kept = [one for one in self.images if one.result == "predicted"]
        found = {"replaced"} if any(one.is_replaced for one in kept) else set()
        found |= {"missing"} if any(one.is_missing for one in kept) else set()
        return found | (
            {"older pending"} if any(one.ago > LOOK_BACK and not one.result for one in self.images) else set()
        )


@only("sqlite", "postgres")
@pytest.mark.parametrize("seed", range(3))
def test_all_that_tells_of_a_day_equals_what_has_happened_to_its_images(database, seed):
    history = History(Nights(database), random.Random(seed))
    for number in range(STEPS):
        history.step()
        images = ProjectDatabase(database, Source(database))
        told = judge(DayReader(images, "5%").read_facts(DAY, MODEL.model_id))
        expected = history.verdict()
        assert (told.state, told.level, told.exit_code, _usual(told.notes)) == expected, number
        report = gather(images, DayReader(images, "5%"), DAY, [(MODEL.name, MODEL.model_id)])
        assert (report.models[0].day_state, report.state) == (told, told.level)
        assert {notice.kind for notice in current_notices(images, DAY.before(LOOK_BACK), DAY)} == history.kinds()


def _usual(notes):
    """Leave out what depends on the numbers of images alone."""
    return tuple(note for note in notes if not note.startswith("unusual"))
