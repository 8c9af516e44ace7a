"""Rows as nights leave them, without a run."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import insert, update

from infer_app.base.day import Day
from infer_app.base.domain import Broken, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.tables.results.schema import models, pictures, runs
from tests.conftest import MODEL
from tests.support.day_rows import run_row
from tests.support.results import commit, register_rows

TODAY = Day.of(datetime.now(UTC).date(), "UTC")
DAY = TODAY.before(1)


class Nights:
    """Rows as nights leave them; `ago` counts days before DAY."""

    def __init__(self, database):
        self.database, self.num_images, self.num_runs = database, 0, 0
        self.add_model(MODEL.name, MODEL.model_id)

    def add_model(self, name, model_id, **more):
        at = datetime(2026, 1, 1)
        self._insert(models, {"id": model_id, "name": name, "manifest": {"output": {"kind": "classification"}}} |
                     {"created_at": at, "in_use_since": at} | more)  # fmt: skip

    def images(self, good=0, bad=0, new=0, ago=0, reason="truncated", model_id=MODEL.model_id, **more):
        """Add images that are predicted, rejected or new, with more values of their columns."""
        numbers = range(self.num_images + 1, self.num_images + good + bad + new + 1)
        self.num_images += len(numbers)
        at = (DAY.before(ago).start + timedelta(hours=12)).replace(tzinfo=None)
        refs = [ImageRef(str(number), f"/cam/{number}.jpg") for number in numbers]
        rows = [{"id": int(ref.image_id), "location": ref.location, "added_at": at} | more for ref in refs]
        with self.database.write() as connection:
            register_rows(connection, *rows)
        facts = FileFacts(7, 1.0, "ab" * 32)
        predicted = [Prediction(ref, Output("cat", 0.9), facts) for ref in refs[:good]]
        rejected = [
            Broken(ref, Reason(reason), "ends early", "decode", facts, "jpg 9") for ref in refs[good : good + bad]
        ]
        commit(self.database, predicted, rejected, self.run_id, model_id)

    def predict(self, *numbers):
        """Predict images that are there, in a run of their own."""
        refs = [ImageRef(str(number), f"/cam/{number}.jpg") for number in numbers]
        commit(self.database, [Prediction(ref, Output("cat", 0.9)) for ref in refs], run_id=self.run_id)
        self.run(selected=len(refs), predicted=len(refs), rejected=0)

    @property
    def run_id(self):
        return f"run {self.num_runs}"

    def run(self, ago=0, **more):
        """Add the run of what was committed last, which began after the former ones."""
        at = (TODAY.start + timedelta(minutes=self.num_runs)).replace(tzinfo=None)
        times = dict.fromkeys(("started_at", "heartbeat_at", "ended_at"), at)
        self._insert(runs, run_row() | {"id": self.run_id, "day": DAY.before(ago).date, "error": None} | times | more)
        self.num_runs += 1

    def night(self, good=0, bad=0, new=0, ago=0, reason="truncated", **of_run):
        counts = {"selected": good + bad, "predicted": good, "rejected": bad}
        self.images(good, bad, new, ago, reason, model_id=of_run.get("model_id", MODEL.model_id))
        self.run(ago, **counts | {"reasons": {reason: bad} if bad else {}} | of_run)

    def week(self, number):
        """Add seven days before DAY that had so many images, all predicted."""
        for ago in range(7, 0, -1):
            self.night(number, ago=ago)

    def change(self, **values):
        """Set columns of the newest image."""
        with self.database.write() as connection:
            connection.execute(update(pictures).where(pictures.c.id == self.num_images).values(values))

    def _insert(self, table, row):
        with self.database.write() as connection:
            connection.execute(insert(table), row)


def failed(code, error="gone"):
    return {"state": "failed", "exit_code": code, "error": error, "selected": 0, "predicted": 0, "rejected": 0}


KILLED = {"state": "running", "exit_code": None, "ended_at": None, "heartbeat_at": datetime(2026, 1, 1)}
