"""README and docs/: every command line is run, every setting is put in force, and what is generated is up to date.

A page's fenced blocks are done in order in one project: sh is run, toml goes into infer.toml, sql into its database. A
comment above a block says why it is not run, or that it needs a PostgreSQL server. How-to pages begin where the
tutorial ends.
"""

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
import tomlkit
import torch
from PIL import Image
from sqlalchemy import make_url

from infer_app.base import errors
from tests.conftest import named_server
from tests.databases import servers
from tests.support.camera_traps import make_cards, make_old
from tests.support.networks import ChannelMeans
from tests.support.preloaded import infer_of_shells

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"
HOW_TO = [DOCS / "stability.md", *sorted((DOCS / "how-to").glob("*.md"))]
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r"^(?:<!-- ([^\n]*) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = ("sh", "toml", "sql")
SCRIPT = """\
import torch
from PIL import Image

model = torch.jit.load("model.ts")


def predict(path):
    photo = Image.open(path).convert("RGB")
    photo.load()
    scale = 256 / min(photo.size)
    photo = photo.resize((int(photo.width * scale), int(photo.height * scale)), Image.BILINEAR)
    left, top = (photo.width - 224) // 2, (photo.height - 224) // 2
    pixels = torch.tensor(list(photo.crop((left, top, left + 224, top + 224)).tobytes())).reshape(1, 224, 224, 3) / 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return model(((pixels - mean) / std).permute(0, 3, 1, 2))[0]
"""


@pytest.fixture(scope="module")
def follow(tmp_path_factory):
    program, files = infer_of_shells(tmp_path_factory.mktemp("bin") / "bin")
    return partial(follow_page, program.parent, files)


@pytest.fixture(scope="module")
def after_tutorial(tmp_path_factory, follow):
    """A project, and a copy of it, after every block of the tutorial."""
    folder = tmp_path_factory.mktemp("docs") / "project"
    make_project(folder)
    said = follow(DOCS / "tutorial.md", folder)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    return folder, copy, said


def make_project(folder: Path) -> None:
    """Write photos, one of them cut off, and a model, its labels and a script into a new folder."""
    (folder / "photos").mkdir(parents=True)
    for i in range(36):
        color = tuple(220 - i if channel == i % 3 else 30 for channel in range(3))
        Image.new("RGB", (340 + i, 300), color).save(folder / "photos" / f"{i:02}.jpg")
    whole = (folder / "photos" / "05.jpg").read_bytes()
    (folder / "photos" / "05.jpg").write_bytes(whole[: len(whole) // 2])
    torch.jit.trace(ChannelMeans(), torch.zeros(2, 3, 224, 224)).save(str(folder / "model.ts"))
    (folder / "labels.txt").write_text("red\ngreen\nblue\n")
    (folder / "my_script.py").write_text(SCRIPT)


@pytest.fixture
def project(after_tutorial):
    """As the tutorial left it, in the same place: locations are absolute."""
    folder, copy, _ = after_tutorial
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    return folder


def follow_page(programs: Path, files: list[int], page: Path, folder: Path, **environ: str) -> str:
    """What the commands of a page said."""
    said = []
    for comment, kind, text in BLOCK.findall(page.read_text()):
        if comment.startswith("not run: ") or (comment == "postgresql" and not environ):
            continue
        if kind == "sh":
            path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
            variables = {"PATH": path} | (environ if comment == "postgresql" else {})
            said.append(run(text, folder, variables, files))
        elif kind == "toml":
            settings = tomlkit.parse((folder / "infer.toml").read_text())
            for section, values in tomlkit.parse(text).items():
                settings.setdefault(section, tomlkit.table()).update(values)
            (folder / "infer.toml").write_text(tomlkit.dumps(settings))
        elif kind == "sql":
            url = tomlkit.parse((folder / "infer.toml").read_text())["database"]["url"]
            with closing(sqlite3.connect(folder / make_url(url).database)) as connection, connection:
                connection.executescript(text)
    return "\n".join(said)


def run(script: str, folder: Path, environ: dict[str, str], files: list[int]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | environ,
        pass_fds=files,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_ends_in_a_run_that_is_consistent(after_tutorial):
    _, _, said = after_tutorial
    assert "same answer on 35 of 35 images" in said
    assert "20 Nov: 36 = 35 predicted + 1 rejected + 0 pending" in said
    assert "the counts add up" in said
    assert "✓ done" in said


def make_own_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "lab.db")) as connection, connection:
        connection.execute("CREATE TABLE photos (photo_id INTEGER PRIMARY KEY, path TEXT, uploaded_at TEXT)")
        rows = [(str(path), "2026-11-20 09:00:00") for path in sorted((folder / "photos").iterdir())]
        connection.executemany("INSERT INTO photos (path, uploaded_at) VALUES (?, ?)", rows)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_of_the_readme_work(follow, tmp_path, monkeypatch):
    make_project(tmp_path)
    monkeypatch.setenv("BASH_FUNC_cp%%", '() { command cp -p "$@"; }')
    for photo in (tmp_path / "photos").iterdir():
        make_old(photo)
    said = follow(README, tmp_path)
    assert "36 = 35 predicted + 1 rejected + 0 pending" in said
    assert "the counts add up" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in HOW_TO if page.stem != "camera-traps"], ids=lambda page: page.stem)
def test_every_command_of_a_how_to_works(project, follow, page, private_server):
    if page.stem == "own-table":
        for name in ("infer.toml", "infer.database-id"):
            (project / name).unlink()
        make_own_table(project)
    with ExitStack() as stack:
        environ = {}
        if page.stem == "postgresql" and shutil.which("psql"):
            server_url = named_server("postgres") or private_server("postgres").url
            environ["INFER_DATABASE__URL"] = stack.enter_context(servers.new_database(server_url))
        said = follow(page, project, **environ)
    if page.stem == "own-table":
        assert "36 = 35 predicted + 1 rejected" in said
    if environ:
        assert "20 Nov: 36 = 35 predicted + 1 rejected" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_commands_for_camera_traps_work(follow, tmp_path):
    """Of each camera's two photos one has a fox; each is of the day on which it was taken."""
    make_cards(tmp_path)
    page = DOCS / "how-to" / "camera-traps.md"
    follow(page, tmp_path)
    found = {one["file"]: one["detections"] for one in json.loads((tmp_path / "results.json").read_text())["images"]}
    foxes = [f"cam0{number}/DCIM/IMG_0001.JPG" for number in (1, 2)]
    assert {file for file, detections in found.items() if detections} == set(foxes)
    assert len(found) == 4
    with (tmp_path / "species.csv").open(newline="") as file:
        rows = [(row["date"], row["label"]) for row in csv.DictReader(file) if row["label"]]
    assert rows == [("2026-11-03", "fox"), ("2026-11-04", "fox")]
    with (tmp_path / "package" / "observations.csv").open(newline="") as file:
        assert {row["scientificName"] for row in csv.DictReader(file)} == {"Vulpes vulpes", ""}
    (queries,) = [text for _, kind, text in BLOCK.findall(page.read_text()) if kind == "sql"]
    blanks, visits = queries.strip().split("\n\n")
    with closing(sqlite3.connect(tmp_path / "infer.db")) as connection, connection:
        assert {Path(location).name for (location,) in connection.execute(blanks)} == {"IMG_0002.JPG"}
        found = [(camera, label, count) for camera, _, label, count, _ in connection.execute(visits)]
        assert found == [("cam01", "fox", 1), ("cam02", "fox", 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_block_is_run_or_says_why_not(page):
    """A page outside the README, the tutorial and the how-to pages holds nothing to run."""
    blocks = [(comment, kind) for comment, kind, _ in BLOCK.findall(page.read_text())]
    if page in (*HOW_TO, README, DOCS / "tutorial.md"):
        assert all(not comment or comment.startswith(("not run: ", "postgresql")) for comment, _ in blocks)
        assert {kind for _, kind in blocks} <= {*RUN, "text"}
    else:
        assert not [kind for _, kind in blocks if kind in RUN]


@pytest.mark.parametrize("page", [README.with_name("ARCHITECTURE.md"), *PAGES], ids=lambda page: page.stem)
def test_the_files_that_a_page_names_exist(page):
    """Check paths below the repository's own folders."""
    named = set(re.findall(r"`((?:infer_app|tests|benchmarks|docs|jobs|docker)/[\w./-]+)`", page.read_text()))
    assert [path for path in sorted(named) if not (README.parent / path).exists()] == []


def test_the_reference_is_up_to_date():
    """`python docs/make_reference.py` writes it. What was imported before would decide the order of commands."""
    program = "import json, runpy, sys; print(json.dumps(runpy.run_path(sys.argv[1])['make']()))"
    command = [sys.executable, "-c", program, DOCS / "make_reference.py"]
    made = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    for name, text in made.items():
        assert (DOCS / "reference" / name).read_text() == text


def test_every_exit_code_is_documented():
    table = (DOCS / "exit-codes.md").read_text()
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.InferError)]
    given = {kind.exit_code for kind in kinds} | {
        errors.EXIT_OK,
        errors.EXIT_TOO_MANY_REJECTED,
        errors.EXIT_TIME_BUDGET,
    }
    assert documented == {code for code in given if code < 128}


def test_the_pages_are_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "reference" / "commands.html").exists()
