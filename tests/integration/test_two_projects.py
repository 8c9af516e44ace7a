"""Two projects over one database of results: each has pictures and results of its own, whatever their ids."""

import hashlib
import json
import os
import shutil
from datetime import datetime

import pytest
from PIL import Image

from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, build_model

NOON = datetime.fromisoformat(f"{DATE}T12:00:00+00:00").timestamp()
IDS = ("1", "2", "3")
COMMANDS = (
    ("run", "--date", DATE), ("run", "--date", DATE, "--dry-run"), ("verify", "--date", DATE), ("list",),
    ("list", "--date", DATE), ("list", "--state", "rejected", "--date", DATE), ("report", "--date", DATE),
    ("retry", "--date", DATE), ("retry", "--replaced", "--date", DATE), ("list", "--state", "changed", "--date", DATE),
    ("forget", "--missing", "--yes"), ("forget", "--before", DATE, "--yes"), ("doctor",),
)  # fmt: skip


@pytest.fixture
def second(make_project):
    """Two projects, the first of which has run; second(paths, base, bytes) is the other one, over its database."""

    def make(location, base="photos", bytes_=False):
        projects = []
        for name in ("first", "second"):
            project = make_project(name)
            for number in IDS:
                color = (40 * int(number) + (name == "second"), 50, 60)
                Image.new("RGB", (20, 20), color).save(project.photos / f"{number}.png")
            table = "shots" if name == "first" else "scans"
            url = f"sqlite:///{project.folder.parent}/first/infer.db"
            project.set("database", url=url)
            held = {"bytes": "path"} if bytes_ else {"location": "path"} | ({"base": base} if base else {})
            project.set("source", table=table, time="taken", time_zone="UTC", **held)
            project.set("images", roots=["photos"])
            project.upgrade()
            projects.append(project)
            projects[0].write(f"CREATE TABLE {table} (id TEXT, path, taken TEXT)")
            for number in IDS:
                file = project.photos / f"{number}.png"
                path = file.read_bytes() if bytes_ else location.format(photos=project.photos, number=number)
                projects[0].write(f"INSERT INTO {table} VALUES (?, ?, ?)", number, path, f"{DATE} 10:00:00")
        first, other = projects
        assert first.run_day()["predicted"] == len(IDS)
        return first, other

    return make


@pytest.mark.parametrize(("location", "base", "bytes_"), [
    ("{number}.png", "photos", False), ("{photos}/{number}.png", None, False), ("", None, True)
], ids=["below another base", "in another table", "bytes in another table"])  # fmt: skip
def test_images_of_two_sources_with_one_id_have_results_of_their_own_in_every_command(second, location, base, bytes_):
    first, other = second(location, base, bytes_)
    assert num_pending(other) == len(IDS)
    assert other.run_day()["predicted"] == len(IDS)
    results = first.results()
    assert len(results) == 2 * len(IDS)
    for project in (first, other):
        for command in COMMANDS if base else COMMANDS[:3]:
            project.infer(*command)
        files = [hashlib.sha256((project.photos / f"{number}.png").read_bytes()).hexdigest() for number in IDS]
        assert [one["image_id"] for one in project.list_images("predicted", DATE)] == list(IDS)
        (explained,) = project.infer_json("explain", "--image", "1")["models"]
        assert explained["prediction"]["sha256"] == files[0]
        project.infer("export", "--date", DATE, "--format", "jsonl", "--to", "out.jsonl")
        written = [json.loads(line) for line in (project.folder / "out.jsonl").read_text().splitlines()]
        assert [(one["image_id"], one["sha256"]) for one in written] == list(zip(IDS, files, strict=True))
        assert num_pending(project) == 0
    assert first.results() == results
    first.infer("retry", "--image", "1")
    assert len(first.results()) == 2 * len(IDS) - 1
    assert (other.run_day()["selected"], first.run_day()["selected"]) == (0, 1)


def num_pending(project):
    return sum(day["pending"] for day in project.infer_json("status", "--days", "400")["days"])


def test_projects_with_models_of_their_own_see_their_own_alone(second):
    """Though their ids are the same, and each of them runs every night."""
    first, other = second("{number}.png")
    save(ChannelMeans(), other.folder / "means.ts")
    shutil.rmtree(other.folder / "models")
    other.infer("run", exit_code=2)
    assert "make one with `infer model build" in other.errors
    build_model(other.folder, "means.ts", "means", "--size", "8")
    other.infer("model", "use", "means")
    assert first.run_day()["exit_code"] == 0  # what only the other one has in use is not missed here
    first.infer("model", "remove", "--force", "means", exit_code=12)
    assert other.run_day()["predicted"] == len(IDS)
    for project, name in ((first, "colors"), (other, "means")):
        assert project.run_day()["selected"] == 0
        days = project.infer_json("status", "--days", "400")["days"]
        assert [(day["model"], day["state"], day["pending"]) for day in days] == [(name, "done", 0)]
        project.infer("report", "--date", DATE)
        page = json.loads((project.folder / f"reports/{DATE}.json").read_text())
        assert [one["model"] for one in page["models"]] == [name]
        assert "no image of any day is pending" in project.infer("list")
        assert project.infer_json("verify", "--date", DATE)["balanced"]
        assert "FAIL" not in project.infer("doctor")


def test_photos_of_a_folder_that_another_project_watches_are_forgotten_only_if_it_is_meant(make_project):
    """One table lists those of both: this project can't know whether the other one's storage is there."""
    first, other = make_project("first"), make_project("other")
    for number, project in enumerate((first, other)):
        project.set("database", url=f"sqlite:///{first.folder}/infer.db")
        project.set("images", watch=["photos"])
        project.upgrade()
        for shade in range(3):
            name = project.photos / f"{shade}.png"
            Image.new("RGB", (20 + number, 20), (50 * shade, 60, 70)).save(name)
            os.utime(name, (NOON, NOON))
    first.run_day()
    other.run_day()
    (first.photos / "0.png").unlink()
    first.run_day()
    before = first.results()
    other.infer("forget", "--missing", "--yes", exit_code=2)
    assert "1 of 1 missing images of folders that [images] watch does not name" in other.errors
    assert first.results() == before
    first.infer("forget", "--missing", "--yes")
    assert len(first.results()) == len(before) - 1
