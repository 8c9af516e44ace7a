"""A stage is slowed on purpose: the run names it, and the limit it prints is the rate it reaches.

Through the real command, processes and database. Where other programs have the cores for a part of the time, that part
is what a run lacks of its limit, so it is counted as reached: `undisturbed`.
"""

import json
import shutil
import sqlite3
import subprocess
import threading
import time
from collections import defaultdict
from contextlib import contextmanager
from itertools import pairwise

import pytest
import torch
from torch import nn

from tests.integration.conftest import DATE

PHOTO_S = 0.015  # how long the slow storage takes to open a photo
NUM_PHOTOS = 120

SLOW_OPEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

/* As of a storage far away: whoever opens a photo waits, and takes no core. */
static int slowly(const char *name, const char *path, int flags, int mode) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, name);
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".jpg") == 0) {
        struct timespec delay = {0, DELAY_NS};
        nanosleep(&delay, 0);
    }
    return real(path, flags, mode);
}

#define SLOW(name) int name(const char *path, int flags, ...) { \\
    va_list rest; va_start(rest, flags); int mode = va_arg(rest, int); va_end(rest); \\
    return slowly(#name, path, flags, mode); }
SLOW(open)
SLOW(open64)
"""

BURN = """CREATE TRIGGER burn AFTER INSERT ON infer_predictions BEGIN
    SELECT max(i) FROM (
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) SELECT i FROM n
    );
END"""


class Dear(nn.Module):
    """Channel means, and half a billion multiplications that change nothing."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 96, 3, padding=1), *(nn.Conv2d(96, 96, 3, padding=1) for _ in range(4))
        )

    def forward(self, pixels):
        return 8.0 * pixels.mean((2, 3)) + 1e-9 * self.layers(pixels).mean((1, 2, 3)).unsqueeze(1)


@pytest.fixture
def project(make_project):
    """A day of NUM_PHOTOS."""
    project = make_project("throughput")
    project.add_photos(NUM_PHOTOS)
    return project


@pytest.fixture
def dear(project, built_models):
    """The name of a model that takes its time."""
    (project.folder / "models").unlink()
    shutil.copytree(built_models, project.folder / "models")
    torch.manual_seed(0)
    torch.jit.trace(Dear(), torch.zeros(2, 3, 48, 48)).save(str(project.folder / "dear.ts"))
    flags = ("--recipe", "stretch", "--size", "48", "--mean", "0,0,0", "--std", "1,1,1")
    project.infer("model", "build", "dear.ts", "--name", "dear", *flags)
    return "dear"


@pytest.fixture(scope="session")
def slow_storage(tmp_path_factory):
    """What the environment of a process must hold for its photos to come from a slow storage."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("slow-storage")
    (folder / "slow.c").write_text(SLOW_OPEN)
    flags = ["-shared", "-fPIC", f"-DDELAY_NS={int(PHOTO_S * 1e9)}", "-o", "slow.so", "slow.c", "-ldl"]
    subprocess.run([compiler, *flags], cwd=folder, check=True)
    return {"LD_PRELOAD": str(folder / "slow.so")}


def run(project, *more, exit_code=0, model="colors", **environ):
    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", model, *more)
    return project.infer_json(*command, exit_code=exit_code, **{"INFER_RUN__CHUNK_SIZE": "4"} | environ)


def undisturbed(report):
    """The share of the limit without the time that others had the cores of what limits."""
    stages = ("select", "write") if report["limited_by"] == "database" else ("read", "decode", "transform", "model")
    busy = sum(report["stages"][stage] + report["waits"].get(stage, 0.0) for stage in stages)
    return report["share_of_limit"] * sum(report["walls"][stage] for stage in stages) / busy


def test_a_slow_storage_limits_and_its_rate_is_foretold(project, slow_storage):
    dry = run(project, "--dry-run", "--limit", "60", **slow_storage)
    report = run(project, **slow_storage)
    assert (dry["limited_by"], report["limited_by"]) == ("storage", "storage")
    assert report["waits"]["read"] == pytest.approx(1e3 * PHOTO_S, rel=0.1)
    assert dry["limit_images_per_second"] == pytest.approx(report["steady_images_per_second"], rel=0.15)
    assert 0.85 < undisturbed(report) < 1.05
    assert report["limits"]["workers"] < report["limits"]["cores"]
    assert report["advice"] is None


def test_a_slow_model_limits(project, dear):
    report = run(project, model=dear)
    assert report["limited_by"] == "model"
    assert report["limit_images_per_second"] == min(report["limits"].values())
    assert report["stages"]["model"] > 5 * report["stages"]["decode"]
    assert 0.85 < undisturbed(report) < 1.05


def test_a_database_that_takes_a_core_limits(project):
    """A trigger of the user's: one coordinator, so the second core doesn't help. A dry run sees it too."""
    with sqlite3.connect(project.folder / "infer.db") as connection:
        connection.execute(BURN)
    dry = run(project, "--dry-run", "--limit", "60")
    report = run(project)
    assert (dry["limited_by"], report["limited_by"]) == ("database", "database")
    assert report["stages"]["write"] > 2 * report["waits"]["write"]
    assert dry["stages"]["write"] == pytest.approx(report["stages"]["write"], rel=0.5)
    assert 0.85 < undisturbed(report) < 1.05


def test_a_database_that_others_hold_limits(project):
    with held_in_turns(project.folder / "infer.db", held_s=0.02, free_s=0.008):
        report = run(project, "--limit", "90", INFER_RUN__CHUNK_SIZE="2")
    assert report["limited_by"] == "database"
    assert report["waits"]["write"] > 2 * report["stages"]["write"]
    assert 0.85 < undisturbed(report) < 1.1  # how long it waits is a matter of chance


@contextmanager
def held_in_turns(file, held_s, free_s):
    """Another writer, who has the lock for most of the time."""
    over = threading.Event()

    def hold():
        with sqlite3.connect(file, timeout=60, isolation_level=None) as connection:
            while not over.wait(free_s):
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(held_s)
                connection.execute("COMMIT")

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        yield
    finally:
        over.set()
        holder.join()


def test_the_last_line_names_the_share_and_what_limits(project, slow_storage):
    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", "colors")
    *_, costs, verdict = project.infer(*command, INFER_RUN__CHUNK_SIZE="4", **slow_storage).splitlines()
    assert costs.startswith("CPU ms per image: ")
    assert "; waiting: " in costs
    assert verdict.startswith(f"20 Nov: {NUM_PHOTOS} = {NUM_PHOTOS} predicted + 0 rejected + 0 pending · ")
    assert verdict.endswith(" % of the limit · the storage limits")


def test_the_run_row_keeps_what_was_measured(project):
    report = run(project)
    ((stages, limit, throughput),) = project.rows("SELECT stages, limit_images_per_second, throughput FROM infer_runs")
    assert (json.loads(stages), limit) == (report["stages"], report["limit_images_per_second"])
    kept = json.loads(throughput)
    assert kept == {name: report[name] for name in kept}
    assert {"walls", "waits", "limits", "limited_by", "share_of_limit", "num_cores", "num_workers"} <= set(kept)


def test_a_run_that_is_cut_short_says_how_long_the_rest_takes(project):
    command = ("run", "--date", DATE, "--lookback", "0", "--workers", "2", "--model", "colors", "--limit", "40")
    *_, rest, verdict = project.infer(*command, INFER_RUN__CHUNK_SIZE="4").splitlines()
    assert rest.startswith(f"if it goes on now: {NUM_PHOTOS - 40} pending, ")
    assert " + 80 pending · " in verdict
    rest = run(project, "--limit", "40")
    assert rest["forecast"]["pending"] == NUM_PHOTOS - 80
    assert rest["forecast"]["seconds"] > 0
    assert run(project)["forecast"] is None


def test_a_dry_run_writes_beside_nothing(project):
    """Its rehearsal is elsewhere, and gone afterwards."""
    before = {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()}
    temporary = project.folder.parent / "tmp"
    temporary.mkdir()
    report = run(project, "--dry-run", TMPDIR=str(temporary))
    assert report["stages"]["write"] > 0
    assert {path.name: path.read_bytes() for path in project.folder.iterdir() if path.is_file()} == before
    assert list(temporary.iterdir()) == []


def test_a_trace_has_every_image_in_every_stage_of_every_process(project):
    run(project, "--trace", "run.json")
    events = read_trace(project)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(names.values()) == ["coordinator", "worker 1", "worker 2"]
    ids = {image for (image,) in project.rows("SELECT image_id FROM infer_predictions")}
    seen, spans = defaultdict(list), defaultdict(list)
    for event in (event for event in events if event["ph"] == "X"):
        seen[event["name"]] += event["args"]["images"]
        spans[event["pid"]].append((event["ts"], event["ts"] + event["dur"]))
        assert (names[event["pid"]] == "coordinator") == (event["name"] in ("select", "write"))
    for stage in ("read", "decode", "transform", "model", "outputs", "write"):
        assert sorted(seen[stage], key=int) == sorted(ids, key=int), stage
    for pid in names:  # a process does one thing after another
        ordered = sorted(spans[pid])
        assert all(end <= start + 1 for (_, end), (start, _) in pairwise(ordered))
    writes = [event for event in events if event["name"] == "write"]
    models = {i: e["ts"] for e in events if e["name"] == "model" for i in e["args"]["images"]}
    assert all(models[i] < write["ts"] for write in writes for i in write["args"]["images"])  # one clock for all


def read_trace(project):
    assert [path.name for path in project.folder.glob(".run.json*")] == []
    return json.loads((project.folder / "run.json").read_text())["traceEvents"]


def test_a_run_that_ends_early_or_fails_leaves_its_trace(project):
    run(project, "--trace", "run.json", "--max-duration", "0", exit_code=75)
    assert {event["ph"] for event in read_trace(project)} >= {"M"}
    project.photos.rename(project.folder / "unmounted")
    run(project, "--trace", "run.json", exit_code=14)
    assert "select" in {event["name"] for event in read_trace(project)}


def test_a_trace_that_can_not_be_written_is_told_before_the_run(project):
    error = run(project, "--trace", "nowhere/run.json", exit_code=2)
    assert "--trace nowhere/run.json" in error["error"]
    assert project.rows("SELECT count(*) FROM infer_runs") == [(0,)]


def test_tables_of_the_first_version_are_refused_until_they_are_upgraded(project):
    with sqlite3.connect(project.folder / "infer.db") as connection:
        connection.execute("ALTER TABLE infer_runs DROP COLUMN throughput")
        connection.execute("UPDATE infer_migrations SET version_num = '0001'")
    assert run(project, exit_code=11)["hint"] == "run `infer db upgrade`"
    assert "version 0002, was 0001" in project.infer("db", "upgrade")
    assert run(project)["predicted"] == NUM_PHOTOS
