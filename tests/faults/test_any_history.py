"""Any history of a database: images come, change and go, runs are killed, the server restarts, the model changes.

After every step the invariants hold; after a run that ended by itself each image of its day has what its file says.
"""

import hashlib
import shutil
import signal
from datetime import date, timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from infer_app.domain import Output
from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.project_run import DATE
from tests.faults.stub import GOOD, answer

MODELS = ("slow", "fragile")  # to the stub handler two ids
DATES = tuple(str(date.fromisoformat(DATE) + timedelta(days=n)) for n in range(3))
CONTENTS = st.one_of(
    st.integers(0, 99).map(lambda number: GOOD + str(number).encode()), st.just(b""), st.just(b"no photo")
)
BATCHES = st.lists(CONTENTS, min_size=1, max_size=9)


class History(RuleBasedStateMachine):
    """`make_night` and `server` are set by the test."""

    make_night = None
    server = None

    @initialize(contents=BATCHES)
    def begin(self, contents):
        self.night = self.make_night()
        self.date, self.model, self.was_killed = DATE, MODELS[0], False
        self.seen = {}  # image: the answers that its file ever gave
        self.insert(contents)

    @property
    def flags(self):
        """Also days of which most images are broken alike are done."""
        return "--model", self.model, "--max-rejected", "100%"

    @rule(contents=BATCHES)
    def insert(self, contents):
        first = (self.night.rows("SELECT max(id) FROM infer_images")[0][0] or 0) + 1
        self.night.add(contents, self.date, first)
        for number, content in enumerate(contents, first):
            self.seen[str(number)] = {told(content)}

    @rule(content=CONTENTS, choice=st.randoms(use_true_random=False))
    def change_a_file(self, content, choice):
        if images := self.night.images(self.date):
            number, location = choice.choice(images)
            Path(location).write_bytes(content + b" ")
            self.seen[str(number)].add(told(content + b" "))

    @rule(choice=st.randoms(use_true_random=False))
    def delete_a_file(self, choice):
        if images := self.night.images(self.date):
            number, location = choice.choice(images)
            Path(location).unlink(missing_ok=True)
            self.seen[str(number)].add(("not_found", None))

    @rule(choice=st.randoms(use_true_random=False))
    def delete_an_image(self, choice):
        if images := self.night.images(self.date):
            self.night.execute("DELETE FROM infer_images WHERE id = :id", id=choice.choice(images)[0])

    @rule(day=st.sampled_from(DATES), model=st.sampled_from(MODELS))
    def another_day_and_model(self, day, model):
        self.date, self.model = day, model

    @precondition(lambda self: self.server is not None)
    @rule()
    def restart_the_server(self):
        self.server.end(signal.SIGQUIT)
        self.server.start()

    @rule(number=st.integers(1, 6), point=st.sampled_from(POINTS))
    def be_killed(self, number, point):
        ended = self.night.run(*self.flags, date=self.date, number=number, point=point)
        assert ended.exit_code in (0, 3, 14, -9), ended.err
        self.was_killed = ended.exit_code == -9

    @rule(contents=st.just([]) | BATCHES)
    def run_after_more_came(self, contents):
        self.insert(contents)
        self.run()

    @rule()
    def run(self):
        ended = self.night.run(*self.flags, date=self.date)
        self.was_killed = False
        if ended.exit_code == 14:  # nothing could be read
            return
        assert ended.exit_code in (0, 3), ended.err
        self.night.check(ended, self.date, self.model_id(ended))
        found = self.rows(self.model_id(ended))
        for number, location in self.night.images(self.date):
            said = found[str(number)]
            if Path(location).exists() and not is_prediction(said):  # what was predicted stays, and what is gone too
                assert said == told(Path(location).read_bytes())

    @invariant()
    def every_row_is_true(self):
        for model_id in {row[0] for row in self.night.rows("SELECT id FROM infer_models")}:
            self.night.check(was_killed=self.was_killed, date=self.date, model_id=model_id)
            for number, said in self.rows(model_id).items():
                assert said in self.seen[number]

    def model_id(self, ended):
        return ended.answer["model_id"]

    def rows(self, model_id):
        predicted = f"SELECT image_id, label, score, sha256 FROM infer_predictions WHERE model_id = '{model_id}'"
        rejected = f"SELECT image_id, reason, sha256 FROM infer_rejections WHERE model_id = '{model_id}'"
        return {row[0]: tuple(row[1:]) for row in [*self.night.rows(rejected), *self.night.rows(predicted)]}

    def teardown(self):
        if hasattr(self, "night"):
            shutil.rmtree(self.night.folder)


def told(content):
    """What the tables say of a file with this content."""
    found, sha256 = answer(content), hashlib.sha256(content).hexdigest()
    return (found.label, found.score, sha256) if isinstance(found, Output) else (found.value, sha256)


def is_prediction(said):
    return len(said) == 3


@on("sqlite")
@pytest.mark.timeout(3000)
def test_whatever_happens_the_books_are_true(play):
    play(History)
