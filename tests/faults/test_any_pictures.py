"""Any history of pictures and networks: whatever was stored says what the named network gives for the bytes named.

A watched folder and a table of the user's share the database of results. Files are replaced, deleted and put back, the
folder is moved, ids come again for other pictures, another version of the model is put in use, runs are killed and the
server restarts.
"""

import hashlib
import json
import os
import shutil
import signal
from collections import defaultdict
from datetime import date

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from infer_app.database.audits.row_audit import audit_rows
from infer_app.database.engine.connect import Database
from infer_app.database.project_database import open_project_database
from infer_app.database.results.model_versions import switch_version
from infer_app.day import Day
from infer_app.domain import Output
from infer_app.settings.load import load_settings
from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.project_run import DATE
from tests.faults.stub import GOOD, answer

NAMES = st.sampled_from(["a.jpg", "b.jpg", "deep/a.jpg", "deep/c.jpg", "d.jpg", "e.jpg"])
CONTENTS = st.one_of(
    st.integers(0, 30).map(lambda number: GOOD + str(number).encode()), st.just(b""), st.just(b"no photo")
)
IDS = st.sampled_from(["1", "2", "3", "shot 1", "shot 2", "shot 3"])  # the first ones are those of infer_images too
CONFIG = """
[database]
url = "{url}"
[images]
roots = ["{folder}"]
{watched}
[run]
lookback = 0
workers = 2
chunk_size = 2
model = "slow"
"""
TABLE = """
[source]
table = "shots"
location = "path"
time = "taken"
time_zone = "UTC"
"""
DAY = Day.of(date.fromisoformat(DATE), "UTC")
NOON = DAY.start.timestamp() + 12 * 3600


class Pictures(RuleBasedStateMachine):
    """`make_night`, `kind` and `server` are set by the test."""

    make_night = None
    kind = "sqlite"
    server = None

    @initialize()
    def begin(self):
        self.night = night = self.make_night()
        self.contents = {}  # by sha256: all that any file ever held
        self.held = defaultdict(set)  # by path: the checksums of what it ever held
        self.folder, self.was_killed = night.photos, False
        self.shots = night.folder / "shots"
        self.shots.mkdir()
        self.versions = own_versions(night)
        at = {"sqlite": "TEXT", "postgres": "TIMESTAMP", "mariadb": "DATETIME"}[self.kind]
        night.execute(f"CREATE TABLE shots (id VARCHAR(20), path VARCHAR(400), taken {at})")
        self.use_another_version(0)
        self.write("a.jpg", GOOD)
        self.configure()

    def configure(self):
        url, folder = self.night.url, self.night.folder
        watched = CONFIG.format(url=url, folder=folder, watched=f'watch = ["{self.folder}"]')
        (folder / "infer.toml").write_text(watched)
        (folder / "shots.toml").write_text(CONFIG.format(url=url, folder=folder, watched="") + TABLE)

    def put(self, path, content):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (NOON, NOON))
        self.remember(path)

    def remember(self, path):
        content = path.read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        self.contents[sha256] = content
        self.held[str(path)].add(sha256)

    @rule(name=NAMES, content=CONTENTS)
    def write(self, name, content):
        """A new photo, or another one in the place of one that is or was there."""
        self.put(self.folder / name, content)

    @rule(name=NAMES)
    def delete(self, name):
        (self.folder / name).unlink(missing_ok=True)

    @rule(name=NAMES)
    def touch(self, name):
        if (self.folder / name).exists():
            os.utime(self.folder / name, (NOON + 1, NOON + 1))

    @rule()
    def move_the_folder(self):
        moved = self.folder.with_name(f"{self.folder.name}x")
        self.folder = self.folder.rename(moved)
        for path in self.folder.rglob("*.jpg"):
            self.remember(path)
        self.configure()

    @rule(image_id=IDS, name=NAMES, content=CONTENTS)
    def list_a_shot(self, image_id, name, content):
        """A row of the user's table; one with this id goes, as after a DELETE or in a camera that counts anew."""
        self.put(self.shots / name, content)
        self.night.execute("DELETE FROM shots WHERE id = :id", id=image_id)
        path = str(self.shots / name)
        self.night.execute("INSERT INTO shots VALUES (:id, :path, :at)", id=image_id, path=path, at=f"{DATE} 12:00:00")

    @rule(number=st.integers(0, 1))
    def use_another_version(self, number):
        with Database(self.night.url) as database:
            switch_version(database, "slow", self.versions[number], {})

    @precondition(lambda self: self.server is not None)
    @rule()
    def restart_the_server(self):
        self.server.end(signal.SIGQUIT)
        self.server.start()

    @rule(config=st.sampled_from(["infer.toml", "shots.toml"]), number=st.integers(1, 7), point=st.sampled_from(POINTS))
    def be_killed(self, config, number, point):
        ended = self.run_with(config, number=number, point=point)
        assert ended.exit_code in (0, 2, 3, 14, -9), ended.err
        self.was_killed = ended.exit_code == -9

    @rule()
    def retry_the_replaced(self):
        retry = self.night.start_command("retry", "--replaced", "--json")
        ended = self.night.wait(retry)
        assert ended.exit_code in (0, 2), ended.err

    @rule()
    def run_the_folder(self):
        ended = self.run_with("infer.toml")
        self.was_killed = False
        assert ended.exit_code in (0, 3, 14) or "is also" in ended.err or "database has its result" in ended.out, ended
        if ended.exit_code == 0:
            assert self.counts("infer.toml").pending == 0

    @rule()
    def run_the_shots(self):
        rows = self.stored()
        ended = self.run_with("shots.toml")
        self.was_killed = False
        assert ended.exit_code in (0, 2, 3, 14), ended
        if ended.exit_code == 2:
            assert "[source] id" in json.loads(ended.out)["error"], ended.out
            assert self.stored() == rows  # nothing was written
        if ended.exit_code == 0:
            assert self.counts("shots.toml").pending == 0

    def run_with(self, config, **faults):
        flags = ("--config", str(self.night.folder / config), "--max-rejected", "100%")
        return self.night.run(*flags, by_network=True, **faults)

    def counts(self, config):
        loaded = load_settings(self.night.folder / config)
        with open_project_database(loaded, read_only=True) as project:
            (version,) = project.day_queries.models_of_day(DAY, "slow")
            return project.day_queries.count_day(DAY, version[1])

    def stored(self):
        return self.night.rows(
            "SELECT image_id, model_id, label, score, sha256, location FROM infer_predictions ORDER BY 1, 2"
        )

    @invariant()
    def every_label_is_that_of_its_picture_and_network(self):
        if not hasattr(self, "night"):
            return
        for image_id, model_id, label, score, sha256, location in self.stored():
            said = answer(self.contents[sha256], model_id)
            assert isinstance(said, Output)
            assert (label, score) == (said.label, said.score), image_id
            assert sha256 in self.held[location], image_id

    @invariant()
    def every_reason_is_that_of_its_picture_and_no_image_has_two_results(self):
        if not hasattr(self, "night"):
            return
        rejected = self.night.rows("SELECT reason, sha256, location FROM infer_rejections WHERE sha256 IS NOT NULL")
        for reason, sha256, location in rejected:
            assert reason == answer(self.contents[sha256])
            assert sha256 in self.held[location]
        for (model_id,) in self.night.rows("SELECT id FROM infer_models"):
            self.night.check(was_killed=self.was_killed, model_id=model_id)

    @invariant()
    def what_is_shown_of_an_image_is_of_its_file(self):
        if not hasattr(self, "night"):
            return
        for config in ("infer.toml", "shots.toml"):
            loaded = load_settings(self.night.folder / config)
            with open_project_database(loaded, read_only=True) as project:
                for row in project.day_queries.read_predictions(DAY):
                    assert row["sha256"] in self.held[row["location"]], (config, row["image_id"])

    @precondition(lambda self: not self.was_killed)
    @invariant()
    def no_row_is_one_that_no_run_writes(self):
        if hasattr(self, "night"):
            with Database(self.night.url) as database:
                assert list(audit_rows(database)) == []

    def teardown(self):
        if hasattr(self, "night"):
            shutil.rmtree(self.night.folder)


def own_versions(night):
    """Give the night a folder of models in which `slow` has two versions, and return their ids."""
    shared = night.models
    (night.folder / "models").unlink()
    ids = []
    for name in ("slow", "fragile"):
        (folder,) = (shared / name).iterdir()
        copy = night.folder / "models" / "slow" / folder.name
        shutil.copytree(folder, copy)
        manifest = json.loads((copy / "manifest.json").read_text()) | {"name": "slow"}
        (copy / "manifest.json").write_text(json.dumps(manifest))
        ids.append(manifest["model_id"])
    return ids


@on("sqlite")
@pytest.mark.timeout(3000)
def test_whatever_happens_each_label_is_that_of_its_picture_and_network(play):
    play(Pictures)
