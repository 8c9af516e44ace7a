"""What makes two rows of the user's one picture or two, by whole commands over each database."""

import hashlib
import os

import pytest
from PIL import Image
from sqlalchemy import create_engine, text

from tests.databases.conftest import ServerProject
from tests.integration.conftest import built_models  # noqa: F401
from tests.support.projects import DATE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
BYTES = {"sqlite": "BLOB", "postgres": "BYTEA", "mariadb": "VARBINARY(300)"}
TEXTS = {"sqlite": "TEXT", "postgres": "TEXT", "mariadb": "TEXT CHARACTER SET utf8mb4"}
PAIRS = [  # names of one id, one after the other
    ("caf\udce9_1.png", "caf\udce9_2.png"), ("a\udce9.png", r"a\udce9.png"), (r"b\udce9.png", "b\udce9.png"),
    ("c\udce9.png", "c\udce8.png"), (r"d\x5cudce9.png", r"d\udce9.png"), (r"e\x00.png", r"e\x01.png"),
    ("x***a.png", "x***b.png"), ("Y.png", "y.png"), ("trailing.png", "trailing.png "), ("é.png", "e\u0301.png"),
    ("ß.png", "ss.png"), ("i\\1.png", "i\\2.png"), ("%_.png", "%%.png"), ("?a.png", "?b.png"),
]  # fmt: skip


class Pictures(ServerProject):
    """A project whose table `shots` has an id, a path, and always the same day."""

    def list(self, column, *paths):
        engine = create_engine(self.url)
        with engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS shots (id VARCHAR(20), path {column}, taken DATE)")
            connection.exec_driver_sql("DELETE FROM shots")
            rows = [{"id": str(number), "path": path} for number, path in enumerate(paths)]
            connection.execute(text(f"INSERT INTO shots VALUES (:id, :path, '{DATE}')"), rows)
        engine.dispose()

    def stored(self):
        return self.results(), self.rows("SELECT image_id, location FROM infer_predictions ORDER BY 1")


@pytest.fixture
def pictures(tmp_path, url, built_models, monkeypatch):  # noqa: F811
    project = Pictures(tmp_path / "project")
    project.url = url
    project.init()
    project.use_models(built_models)
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    project.set("source", table="shots", location="path", time="taken", time_zone="UTC")
    project.set("images", roots=["photos"])
    project.upgrade()
    return project


def paint(path, red):
    Image.new("RGB", (16, 16), (red, 40, 40)).save(path, format="PNG")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@pytest.mark.parametrize("holds", ["text", "bytes"])
def test_paths_are_one_picture_only_if_every_byte_is_the_same(pictures, kind, holds):
    """Where the id of a row that is gone comes back; SQLite holds bytes in columns of text too."""
    column = {"text": TEXTS, "bytes": BYTES}[holds][kind]
    is_of_bytes = kind == "sqlite" or holds == "bytes"
    pairs = PAIRS if is_of_bytes else [pair for pair in PAIRS if is_utf8("".join(pair))]
    days = [[os.path.join(str(pictures.photos), name) for name in names] for names in zip(*pairs, strict=True)]
    for red, path in enumerate(days[0] + days[1]):
        paint(path, 100 + red)
    for paths in days:
        pictures.list(column, *(os.fsencode(path) if holds == "bytes" or not is_utf8(path) else path for path in paths))
        assert pictures.run_day()["day"]["predicted"] == len(pairs)
        found = dict(pictures.rows("SELECT image_id, sha256 FROM infer_predictions"))
        assert found == {str(number): sha256(path) for number, path in enumerate(paths)}
        before = pictures.stored()
        assert pictures.run_day()["selected"] == 0
        assert pictures.stored() == before
        assert pictures.infer_json("verify", "--date", DATE)["balanced"]


def is_utf8(name):
    return name.encode(errors="replace").decode() == name
