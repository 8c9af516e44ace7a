"""A [source] that was changed is compared with what is known, before a run takes anything."""

import shutil
from hashlib import sha256

import pytest

from infer_app.base.domain import FileFacts, Output, Prediction
from infer_app.base.errors import UsageError
from infer_app.base.settings.load import load_settings
from infer_app.run.known_source import check_source
from infer_app.tables.project_database import open_project_database
from tests.conftest import DAY
from tests.support.projects import DATE, Project
from tests.support.results import run_day

NAMES = [f"{number}.jpg" for number in range(12)]


class Listed(Project):
    """A project whose table lists files below its base; `night` does what a run does, but for the network."""

    def fill(self, table, names=NAMES, first=0):
        self.write(f"CREATE TABLE IF NOT EXISTS {table} (id TEXT, location TEXT, added_at TEXT)")
        for number, name in enumerate(names, first):
            self.write(f"INSERT INTO {table} VALUES (?, ?, ?)", str(number), name, f"{DATE} 10:00:00")

    def night(self, is_meant=False, read_only=False):
        loaded = load_settings(self.folder / "infer.toml")
        with open_project_database(loaded, read_only) as project:
            check_source(loaded, project, is_meant=is_meant, read_only=read_only)
            if not read_only:
                run_day(project.database, project.source, DAY, lambda ref: self.predict(ref, loaded.base))

    def predict(self, ref, base):
        file = base / ref.location
        content = file.read_bytes() if file.exists() else b""
        facts = FileFacts(len(content), 1.0, sha256(content).hexdigest()) if content else FileFacts()
        return Prediction(ref, Output("cat", 0.9), facts)

    def num_predicted(self):
        return self.rows("SELECT COUNT(*) FROM infer_predictions")[0][0]


@pytest.fixture
def listed(tmp_path):
    project = Listed(tmp_path / "project")
    project.upgrade()
    for number, name in enumerate(NAMES):
        (project.photos / name).write_bytes(bytes([number]) * 100)
    project.fill("shots")
    project.set("source", table="shots", base="photos", time_zone="UTC")
    project.night()
    return project


def test_another_view_query_or_url_of_the_same_rows_is_the_same_source(listed):
    listed.write("CREATE VIEW seen AS SELECT id, location AS path, added_at FROM shots")
    for changed in ({"table": "seen", "location": "path"}, {"query": "SELECT * FROM shots", "location": "location"}):
        listed.set("source", **changed)
        listed.night(read_only=True)
        listed.night()
    assert listed.num_predicted() == len(NAMES)
    listed.write("DELETE FROM shots")  # the settings are as before: nothing is compared
    listed.night()


def test_another_table_ends_a_run_before_its_first_image_unless_it_is_meant(listed):
    listed.fill("scans", first=100)
    listed.set("source", table="scans")
    for read_only in (True, False, False):
        with pytest.raises(UsageError, match=r"names another table .* with 0 of the last 12 images") as caught:
            listed.night(read_only=read_only)
        assert "--other-source" in caught.value.hint
    assert listed.num_predicted() == len(NAMES)
    listed.night(is_meant=True)
    listed.night()
    assert listed.num_predicted() == 2 * len(NAMES)


@pytest.mark.parametrize("files", ["moved", "others"])
def test_ids_under_other_locations_are_of_the_same_table_only_if_their_files_are_the_same(listed, files, caplog):
    (listed.photos / "other").mkdir()
    for name in NAMES:
        content = (listed.photos / name).read_bytes() if files == "moved" else b"x" * 100
        (listed.photos / "other" / name).write_bytes(content)
    listed.fill("scans", [f"other/{name}" for name in NAMES])
    listed.set("source", table="scans")
    if files == "others":
        with pytest.raises(UsageError, match="12 of 12 files that"):
            listed.night()
        listed.night(is_meant=True)
    else:
        listed.night()
        assert "are under other locations now, and are predicted as others" in caplog.text
    assert listed.num_predicted() == 2 * len(NAMES)


def test_a_query_of_what_is_not_done_is_no_other_table_at_another_url(listed, caplog):
    listed.set("source", query="SELECT * FROM shots WHERE id NOT IN (SELECT image_id FROM infer_pictures)")
    with pytest.raises(UsageError, match="names another table"):
        listed.night()
    listed.night(is_meant=True)
    listed.write("UPDATE infer_pictures SET unlisted_since = NULL")  # as before the first night of such a query
    listed.folder = listed.folder.rename(listed.folder.with_name("renamed"))
    listed.night()
    assert "the query finds 0 of the last 12 images at the new URL of [source]" in caplog.text


def test_a_base_that_moved_with_its_files_is_the_same(listed):
    listed.photos.rename(listed.folder / "moved")
    listed.set("source", base="moved")
    listed.night()
    assert listed.num_predicted() == len(NAMES)


@pytest.mark.parametrize("sizes", ["other sizes", "other bytes"])
def test_other_files_under_the_same_names_end_a_run_unless_it_is_meant(listed, sizes):
    other = listed.folder / "other"
    shutil.copytree(listed.photos, other)
    listed.set("source", base="other")
    for name in NAMES:
        (other / name).write_bytes(b"x" * (99 if sizes == "other sizes" else 100))
    for _ in range(2):
        with pytest.raises(UsageError, match="12 of 12 files that .* are others than before"):
            listed.night()
    listed.night(is_meant=True)


def test_files_that_are_away_are_compared_once_they_are_back(listed):
    listed.set("source", base="other")
    (listed.folder / "other").mkdir()
    listed.night()
    for name in NAMES:
        (listed.folder / "other" / name).write_bytes(b"x")
    with pytest.raises(UsageError, match="12 of 12 files"):
        listed.night()
