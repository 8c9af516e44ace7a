"""Projects whose runs last long enough to be hit: a day of photos, some broken, and a model that takes its time.

The day is made once and its uninterrupted results are kept; each test works on a copy of the project.
"""

import random
import shutil
import sqlite3
import subprocess
from contextlib import closing

import psutil
import pytest

from tests.conftest import DATABASES, make_users_file
from tests.faults.project_run import ProjectRun
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, Project, build_model
from tests.support.waiting import wait_until

NUM_PHOTOS = 90
BROKEN = {7: b"", 31: b"no photo", 58: None}  # None: cut in the middle
PREPROCESS = '''
import os, signal, time
import numpy as np

def slowly(rgb):
    """30 ms for each image, without a core: the machine has other things to do."""
    time.sleep(0.03)
    return _means(rgb)

def fragile(rgb):
    """As a decoder with a bug: magenta is its end, and of cyan it never has enough."""
    if (rgb[0, 0] == (255, 0, 255)).all():
        os.kill(os.getpid(), signal.SIGSEGV)
    if (rgb[0, 0] == (0, 255, 255)).all():
        time.sleep(3600)
    return _means(rgb)

def _means(rgb):
    return np.broadcast_to(rgb.mean((0, 1)).astype(np.uint8), (16, 16, 3)).copy()
'''


def pytest_collection_modifyitems(items):
    for item in items:
        if "faults" in item.path.parts:
            item.add_marker(pytest.mark.slow)


class Hit(Project):
    """A project whose run is disturbed."""

    def start_run(self, *more, **environ):
        """A run of the day by two workers, in chunks of four."""
        return self.start(*self.command(*more), INFER_RUN__CHUNK_SIZE="4", **environ)

    def run(self, *more, exit_code=0):
        return self.infer_json(*self.command(*more), exit_code=exit_code, INFER_RUN__CHUNK_SIZE="4")

    def command(self, *more):
        return ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", "slow", *more)

    def count_results(self):
        return sum(self.rows(f"SELECT count(*) FROM infer_{table}")[0][0] for table in ("predictions", "rejections"))

    def wait_for_results(self, run, count):
        """Until so many images are done, or the run has ended."""
        wait_until(lambda: run.poll() is not None or self.count_results() >= count)

    def check_books(self):
        assert self.infer_json("verify", "--date", DATE)["balanced"] is True


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """`slow` and `fragile`: three channel means behind a preprocess function of the user's."""
    folder = tmp_path_factory.mktemp("fault-models")
    save(ChannelMeans(), folder / "colors.ts")
    (folder / "steps.py").write_text(PREPROCESS)
    for name, function in (("slow", "slowly"), ("fragile", "fragile")):
        build_model(folder, "colors.ts", name, "--size", "16", "--set", f"preprocess=steps:{function}")
    return folder / "models"


@pytest.fixture(scope="session")
def a_day(tmp_path_factory, models, pytestconfig):
    """A project with a day of NUM_PHOTOS registered and nothing predicted."""
    project = Hit(tmp_path_factory.mktemp("a-day") / "project", models)
    if pytestconfig.option.sqlite_journal == "delete":
        make_users_file(project.folder / "infer.db")
        project.upgrade()
    project.add_photos(NUM_PHOTOS)
    for number, content in BROKEN.items():
        file = project.photos / f"{number:04}.jpg"
        file.write_bytes(file.read_bytes()[:300] if content is None else content)
    return project


def copied(day, folder):
    """A project of its own over the same photos."""
    shutil.copytree(day.folder, folder, ignore=shutil.ignore_patterns("photos"), symlinks=True)
    with closing(sqlite3.connect(folder / "infer.db")) as connection, connection:
        assert connection.execute("SELECT count(*) FROM infer_images").fetchall() == [(NUM_PHOTOS,)]
    return Hit(folder)


@pytest.fixture
def project(a_day, tmp_path):
    return copied(a_day, tmp_path / "project")


@pytest.fixture(scope="session")
def uninterrupted(a_day, tmp_path_factory):
    """The results of the day when nothing happens to its run."""
    project = copied(a_day, tmp_path_factory.mktemp("uninterrupted") / "project")
    report = project.run()
    assert report["reasons"] == {"empty": 1, "truncated": 1, "unsupported_format": 1}
    assert report["predicted"] == NUM_PHOTOS - len(BROKEN)
    return project.results()


@pytest.fixture
def seeded(request):
    """Random by --seed and the test's name, which a failure prints."""
    seed = f"{request.config.option.seed} {request.node.name}"
    print("seed:", seed)
    return random.Random(seed)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs root, to mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def night(url, tmp_path, models):
    """A night of its own on the database at hand."""
    return ProjectRun(tmp_path / "night", url, models)


def descendants(run):
    try:
        return psutil.Process(run.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def is_fork_server(process):
    return "multiprocessing.forkserver" in " ".join(process.cmdline())


def workers_of(run):
    found = []
    for process in descendants(run):
        try:
            if is_fork_server(process.parent()):
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found


def on(*quick, of=DATABASES):
    """On these databases always, on the others of `of` with --full."""
    each = [kind if kind in quick else pytest.param(kind, marks=pytest.mark.full) for kind in of]
    return pytest.mark.parametrize("kind", each, indirect=True, scope="session")
