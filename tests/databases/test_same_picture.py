"""What makes two rows of the user's one picture or two, by whole commands over each database."""

import hashlib
import os
from pathlib import Path

import pytest
from PIL import Image

from infer_app.base.locations import stored_location
from tests.databases.conftest import ServerProject
from tests.support.projects import DATE
from tests.support.web_server import web_server

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
        rows = [{"id": str(number), "path": path} for number, path in enumerate(paths)]
        self.execute(
            f"CREATE TABLE IF NOT EXISTS shots (id VARCHAR(20), path {column}, taken DATE)",
            "DELETE FROM shots",
            (f"INSERT INTO shots VALUES (:id, :path, '{DATE}')", rows),
        )

    def stored(self):
        return self.results(), sorted(self.rows("SELECT id, image_id, location FROM infer_pictures"))

    def labelled(self):
        """Return the digest of what was predicted, by id and location."""
        joined = "infer_pictures c JOIN infer_predictions p ON p.picture = c.id"
        return {tuple(row[:2]): row[2] for row in self.rows(f"SELECT image_id, location, p.sha256 FROM {joined}")}


@pytest.fixture
def pictures(tmp_path, url, built_models, monkeypatch):
    project = Pictures(tmp_path / "project", url, built_models)
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    project.set("source", table="shots", location="path", time="taken", time_zone="UTC")
    project.set("images", roots=["photos"])
    project.upgrade()
    return project


def paint(path, red):
    Image.new("RGB", (16, 16), (red, 40, 40)).save(path, format="PNG")


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.mark.parametrize("holds", ["text", "bytes"])
def test_paths_are_one_picture_only_if_every_byte_is_the_same(pictures, kind, holds):
    """Where an id is used again, each keeps its result; SQLite holds bytes in columns of text too."""
    column = {"text": TEXTS, "bytes": BYTES}[holds][kind]
    is_of_bytes = kind == "sqlite" or holds == "bytes"
    pairs = PAIRS if is_of_bytes else [pair for pair in PAIRS if is_utf8("".join(pair))]
    days = [[f"{pictures.photos}/{name}" for name in names] for names in zip(*pairs, strict=True)]
    for red, path in enumerate(days[0] + days[1]):
        paint(path, 100 + red)
    expected = {}
    for paths in days:
        pictures.list(column, *(os.fsencode(path) if holds == "bytes" or not is_utf8(path) else path for path in paths))
        assert pictures.run_day()["day"]["predicted"] == len(pairs)
        expected |= {(str(number), stored_location(path)): sha256(path) for number, path in enumerate(paths)}
        assert pictures.labelled() == expected
        before = pictures.stored()
        assert pictures.run_day()["selected"] == 0
        assert pictures.stored() == before
        assert pictures.infer_json("verify", "--date", DATE)["balanced"]


def is_utf8(name):
    return name.encode(errors="replace").decode() == name


SIGNED = (  # each night another signature of one picture
    "X-Amz-Date=20261120T01{n}Z&X-Amz-Expires=60&X-Amz-Signature=ab{n}", "sv=2024&se=2026-11-2{n}&sig=x%2F{n}%3D",
    "GoogleAccessId=a@b.c&Expires=17{n}&Signature=y{n}", "X-Goog-Date={n}&X-Goog-Signature=c?{n}",
)  # fmt: skip


def test_a_url_signed_anew_each_night_is_one_picture(pictures, kind, web):
    def sign(n):
        return [f"{web.url}/{number}.png?{query.format(n=n)}" for number, query in enumerate(SIGNED)]

    pictures.list(TEXTS[kind], *sign(1))
    assert pictures.run_day()["predicted"] == len(SIGNED)
    before = pictures.stored()
    pictures.list(TEXTS[kind], *sign(2))
    assert pictures.run_day()["selected"] == 0
    assert pictures.stored() == before
    assert pictures.infer_json("verify", "--date", DATE)["balanced"]


@pytest.mark.parametrize("has_ids", [True, False])
def test_urls_that_differ_in_their_query_alone_are_pictures_of_their_own(pictures, kind, web, has_ids):
    bodies = {f"/img.php?id={n}": (pictures.photos / "one.png").read_bytes() + bytes(n) for n in range(3)}
    web.answers["/img.php"] = lambda handler: handler.send(bodies[handler.path.partition("&sig=")[0]])

    def sign(n):
        pictures.list(TEXTS[kind], *(f"{web.url}{path}&sig=SECRET{n}" for path in bodies))
        if not has_ids:
            pictures.execute("UPDATE shots SET id = NULL")

    sign(1)
    assert pictures.run_day()["predicted"] == len(bodies)
    before = pictures.stored()
    sign(2)
    assert pictures.run_day()["selected"] == 0
    assert pictures.stored() == before
    pictures.infer("export", "--date", DATE, "--format", "csv", "--to", "all.csv")
    exported = (pictures.folder / "all.csv").read_text()
    names = {line.split(",")[1] for line in exported.splitlines()[1:]}
    assert names == {f"{web.url}/img.php?***{number}" for number, *_ in before[1]}
    ids = {image["image_id"] for image in pictures.infer_json("list", "--date", DATE, "--state", "predicted")["images"]}
    assert (len(names), len(ids)) == (3, 3)
    assert [text for text in ("SECRET", "id=") if text in exported + str(before) + str(ids)] == []


def test_a_url_that_was_refused_is_asked_again_once_it_is_signed_anew(pictures, kind, web):
    """Whatever the number of attempts, and not before."""
    web.answers["/gone.png"] = lambda handler: handler.status(500 if "sig=old" in handler.path else 404)
    pictures.set("remote", allow=[web.url], allow_private_hosts=["127.0.0.1"], retries=0)
    pictures.list(TEXTS[kind], f"{web.url}/0.png", f"{web.url}/gone.png?sig=old")
    pictures.run_day()
    pictures.execute("UPDATE infer_rejections SET attempts = 3")
    assert pictures.run_day()["selected"] == 0
    pictures.list(TEXTS[kind], f"{web.url}/0.png", f"{web.url}/gone.png?sig=new")
    assert pictures.run_day()["reasons"] == {"not_found": 1}


def test_an_address_that_was_rejected_is_tried_again_when_any_part_changes(pictures, kind, web):
    """Not before; what else its owner writes there may be rejected again."""
    host = web.url.removeprefix("http://")
    bad = [
        f"http://u:pw@{host}/0.png",
        f"http://u:pw@{host}/1.png",
        f"http://{host}/2.png?a b",
        f"http://{host}/3.png#a",
    ]
    pictures.list(TEXTS[kind], *bad, f"{web.url}/4.png")
    assert pictures.run_day()["day"] == {"eligible": 5, "predicted": 1, "rejected": 4, "pending": 0}
    assert pictures.run_day()["selected"] == 0
    good = [f"{web.url}/0.png", f"http://v:pw@{host}/1.png", f"{web.url}/2.png?a%20b", f"{web.url}/3.png"]
    pictures.list(TEXTS[kind], *good, f"{web.url}/4.png?other")
    assert pictures.run_day()["day"] == {"eligible": 5, "predicted": 4, "rejected": 1, "pending": 0}
    assert pictures.run_day()["selected"] == 0
    assert "pw" not in str(
        pictures.rows("SELECT * FROM infer_pictures") + pictures.rows("SELECT * FROM infer_rejections")
    )


@pytest.fixture
def web(pictures):
    with web_server() as server:
        for number in range(5):
            paint(pictures.photos / "one.png", 100 + number)
            server.serve(f"/{number}.png", (pictures.photos / "one.png").read_bytes())
        pictures.set("remote", allow=[server.url], allow_private_hosts=["127.0.0.1"])
        yield server
