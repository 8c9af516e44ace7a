"""Every option of a command that tells of images, under every way of writing what names cameras, days and locations.

What is told is compared with what is counted here, of SHOTS.
"""

import csv
import io
import json
import re
import sqlite3
from collections import Counter, namedtuple
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, product
from pathlib import Path

import pytest
import typer

from infer_app.base.domain import NO_TIME, Broken, CaptureTime, DetectedObject, FileFacts, Output, Prediction, Reason
from infer_app.base.errors import EXIT_BUG
from infer_app.base.settings.load import load_settings
from infer_app.cli import load_app
from infer_app.cli.terminal.groups import INSPECT
from infer_app.run.note_facts import note_facts
from infer_app.tables.project_database import open_project_database
from infer_app.tables.results.runs import RunModel
from tests.support.photos import jpeg
from tests.support.projects import Project
from tests.support.results import PICTURE, run_day
from tests.support.second_networks import DETECTION

INFER = typer.main.get_command(load_app())
NOW, DAY, BEFORE = datetime(2026, 11, 21, 12, tzinfo=UTC), "2026-11-20", "2026-11-19"
MODELS = {name: RunModel(name, name[0] * 16, "cpu-openvino", DETECTION) for name in ("animals", "others")}
ANIMAL = Output("animal", 0.9, objects=(DetectedObject("animal", 0, 0.9, 0.1, 0.1, 0.5, 0.5),))
P, R, AGAIN, NONE = "predicted", "rejected", "rejected for now", "pending"
# By id: camera, day, and the state by the two models. Those without a result come after the runs.
SHOTS = {
    1: ("cam01", DAY, P, P), 2: ("cam01", DAY, P, R), 3: ("cam01", DAY, R, R), 4: ("cam02", DAY, P, R),
    5: ("cam02", DAY, P, R), 6: ("cam01", DAY, AGAIN, AGAIN), 7: ("cam01", BEFORE, P, R), 8: ("cam01", DAY, NONE, NONE),
    9: ("cam02", DAY, NONE, NONE), 10: ("cam02", BEFORE, NONE, NONE), 11: ("cam01", None, NONE, NONE),
    12: ("cam01", None, NONE, NONE), 13: ("cam02", None, NONE, NONE),
}  # fmt: skip
# `time`: the form of a column or, of our own list, how images come into it.
Setting, OURS = namedtuple("Setting", "camera location time taken"), ("watched", "added")
SETTINGS = [Setting(*one) for one in (
    ("column", "relative", "text", "exif"), ("column", "other database", "date", "name"),
    ("expression", "absolute", "seconds", "column"), ("folder:1", "relative", "text", "name"),
    ("folder:2", "url", "date", "column"), ("folder:1", "absolute", "watched", "exif"),
    ("folder:1", "absolute", "added", "name"),
)]  # fmt: skip
STATES = [{"--state": state} for state in ("predicted", "rejected", "pending", "changed", "missing")]
CAM, DATE, OTHERS = {"--camera": "cam01"}, {"--date": DAY}, {"--model": "others"}
BOTH, EARLIER, CSV = {"--date": BEFORE, "--until": DAY}, {"--date": BEFORE}, {"--csv": True}
EXPORT = DATE | {"--model": "animals", "--format": "csv", "--to": "export.csv"}
SAMPLE = EXPORT | {"--format": "coco", "--to": "sample.json"}
# By command and option, what is given; without JSON the text is read.
CASES = {
    "status": {"--days": [{"--days": 2}], "--camera": [CAM], "--json": []},
    "list": {"--state": STATES[:3], "--date": [DATE | state for state in STATES], "--csv": [CAM | CSV],
             "--camera": [*(DATE | CAM | state for state in STATES), EARLIER | {"--camera": "cam02"}],
             "--model": [OTHERS | state for state in STATES[:3]], "--json": [{"--json": 0}, CAM | {"--json": 0}]},
    "events": {"--date": [DATE], "--until": [BOTH], "--camera": [BOTH | CAM], "--csv": [CSV], "--json": [{}]},
    "export": {"--date": [EXPORT | EARLIER], "--until": [EXPORT | BOTH], "--model": [EXPORT | OTHERS],
               "--camera": [EXPORT | CAM], "--json": [EXPORT]},
    "report": {"--date": [], "--until": [BOTH], "--json": []},  # three in one: a page for each day, told as JSON
    "sample": {"--date": [SAMPLE | EARLIER], "--until": [SAMPLE | BOTH], "--model": [SAMPLE | OTHERS],
               "--camera": [SAMPLE | CAM | BOTH], "--count": [SAMPLE | {"--count": 2}], "--json": [SAMPLE],
               "--one-per-event": [SAMPLE | BOTH | {"--one-per-event": True}]},
    "explain": {"--image": [{"--image": 1}, {"--image": 6}, {"--image": 8}], "--date": [{"--image": 2} | DATE],
                "--model": [{"--image": 2} | OTHERS], "--json": [{"--image": 10}]},
    "cameras list": {"--json": [{}]},
    "verify": {"--date": [EARLIER], "--model": [OTHERS], "--json": []},
}  # fmt: skip
CHOOSES_NONE = {"--config", "--out", "--format", "--to", "--min-score", "--relative-to", "--copy-to", "--by", "--seed"}
NOT_ASKED = {"compare": {"--models", "--date", "--limit", "--json"}, "verify": {"--image", "--replay"}}
NOT_ASKED["explain"] = {"--draw"}
IN_A_PROCESS = "ask.image_list.run ask.image_report.run ask.page.thumbnails.run run.files.changed_files.iterate"


def test_every_option_of_every_command_that_tells_has_a_case():
    telling = {name: one for name, one in INFER.commands.items() if getattr(one, "rich_help_panel", "") == INSPECT}
    telling = {name: one for name, one in telling.items() if not hasattr(one, "commands")}
    telling["cameras list"] = INFER.commands["cameras"].commands["list"]
    options = {name: {max(one.opts, key=len) for one in command.params} for name, command in telling.items()}
    asked = {name: found - CHOOSES_NONE - NOT_ASKED.get(name, set()) for name, found in options.items()}
    assert asked == {name: set(CASES.get(name, ())) for name in telling}


def cases():
    for setting, (command, options) in product(SETTINGS, CASES.items()):
        for given in chain(*options.values()):
            name = " ".join([*setting, command, *(f"{key[2:]}={value}" for key, value in given.items())])
            yield pytest.param(setting, command, given, id=name)


def make(setting, folder):
    """Make a project with settings, table and files, and with what two models have found in runs of both days."""
    project = Project(folder)
    project.upgrade()
    source = {"camera": setting.camera if setting.camera.startswith("folder") else "camera"}
    source |= {"name": {"taken_in_name": "%Y%m%d_%H%M%S"}, "column": {"taken": "taken_at"}}.get(setting.taken, {})
    if setting.time not in OURS:
        query = "SELECT id, location, added_at, taken_at, 'cam' || substr(camera, 4) AS camera FROM shots"
        source |= {"time_zone": "UTC"} | ({"query": query} if setting.camera == "expression" else {"table": "shots"})
        places = {"relative": {"base": "photos"}, "other database": {"database_url": "sqlite:///lab.db"}}
        source |= places.get(setting.location, {})
    project.set("source", **source)
    project.set("events", gap="30min")
    project.set("images", **{"watch" if setting.time == "watched" else "roots": ["photos"]})
    with closing(sqlite3.connect(folder / ("lab.db" if "database_url" in source else "infer.db"))) as theirs:
        theirs.execute("CREATE TABLE shots (id INTEGER, location TEXT, added_at, taken_at TEXT, camera TEXT)")
        for number in range(1, 8):
            add(setting, project, theirs, number)
        loaded = load_settings(folder / "infer.toml")
        with open_project_database(loaded) as opened:
            days, where = [loaded.day(BEFORE), loaded.day(DAY)], (opened.database, opened.source)
            for (place, model), day in product(enumerate(MODELS.values(), 2), days):
                run_day(*where, day, lambda ref, place=place: answer(setting, ref, place), model)
            note_facts(loaded, opened, days)
        for number in range(8, 11 if setting.time in OURS else 14):
            add(setting, project, theirs, number)
    return project


def add(setting, project, theirs, number):
    camera, date, *_ = SHOTS[number]
    at = f"{date or DAY} 10:00:{number:02}"
    path = f"{'north/' * (setting.camera == 'folder:2')}{camera}/{re.sub('[-:]', '', at).replace(' ', '_')}.jpg"
    file = project.photos / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(jpeg())
    location = {"relative": path, "url": f"https://photos.example/{path}"}.get(setting.location, str(file))
    if setting.time in OURS:
        project.register_images(location, date=date, id=number, camera=camera)
        return
    time = {"text": at, "date": date, "seconds": int(datetime.fromisoformat(f"{at}+00:00").timestamp())}[setting.time]
    theirs.execute("INSERT INTO shots VALUES (?, ?, ?, ?, ?)", (number, location, date and time, at, camera))
    theirs.commit()


def answer(setting, ref, place):
    state, taken = SHOTS[int(ref.image_id)][place], NO_TIME
    if setting.taken == "exif":
        taken = CaptureTime(datetime.fromisoformat(f"{SHOTS[int(ref.image_id)][1]} 10:00:{int(ref.image_id):02}"))
    facts = FileFacts(7, 1.5, "ab" * 32, PICTURE, taken)
    if state == P:
        return Prediction(ref, ANIMAL, facts)
    return Broken(ref, *(Reason.NOT_FOUND, "", "read") if state == AGAIN else (Reason.CORRUPT, "", "decode", facts))


@pytest.fixture(scope="module")
def projects():
    return {}


@pytest.mark.parametrize(("setting", "command", "given"), list(cases()))
def test_what_is_told_is_what_is_counted(
    projects, tmp_path_factory, setting, command, given, monkeypatch, capsys, logging_as_it_was
):
    for setting_of_pillow in ("ImageFile.LOAD_TRUNCATED_IMAGES", "Image.MAX_IMAGE_PIXELS"):
        monkeypatch.setattr(f"PIL.{setting_of_pillow}", None)  # set for thumbnails, in this process for once
    monkeypatch.setattr("infer_app.predict.workers.fork_server.start_early", lambda: None)
    monkeypatch.setattr("infer_app.base.day._first_asked", lambda: NOW)
    for name in IN_A_PROCESS.split():
        monkeypatch.setattr(f"infer_app.{name}_in_process", lambda do, *values, timeout_s, check=None: do(*values))
    if setting not in projects:
        projects[setting] = make(setting, tmp_path_factory.mktemp("project") / "project")
    monkeypatch.chdir(projects[setting].folder)
    flags = [[key] if value is True else [key, str(value)] for key, value in given.items() if key != "--json"]
    flags += [] if {"--json", "--csv"} & given.keys() else [["--json"]]
    capsys.readouterr()
    assert not INFER([*command.split(), *chain(*flags)], standalone_mode=False)
    wanted = expected(setting, command, **{key[2:]: value for key, value in given.items()})
    assert read(command, given, capsys.readouterr().out) == wanted


def test_a_row_whose_picture_is_not_found_is_named_by_verify(tmp_path, monkeypatch, capsys, logging_as_it_was):
    project = make(SETTINGS[0], tmp_path / "project")
    monkeypatch.chdir(project.folder)
    project.write("UPDATE infer_pictures SET key = key + 1 WHERE image_id = '4'")
    assert INFER(["verify", "--date", DAY], standalone_mode=False) == EXIT_BUG
    assert "1 image with the key of another one: image 4\n" in capsys.readouterr().out


def read(command, given, out):
    if "--json" in given:
        return int(found[1]) if (found := re.search(r"(\d+) images? without a time", out)) else 0
    told = list(csv.DictReader(io.StringIO(out))) if "--csv" in given else json.loads(out)
    rows = told if "--csv" in given else told.get({"list": "images", "cameras list": "cameras"}.get(command, command))
    match command:
        case "list":
            return sorted((int(one["image_id"]), one["model"]) for one in rows)
        case "events":
            return sorted({(one["camera"], one["started_at"][:16]) for one in rows})
        case "cameras list":
            return {one["camera"]: one["num_images"] for one in rows}
        case "export" | "sample":
            return [told[name] for name in ("images", "rejected", "pending") if name in told]
        case "explain":
            return sorted((one["model"], one["state"]) for one in told["models"])
        case "status":
            rows = [(one["date"], one["model"], one) for one in told["days"]]
        case "report":
            pages = ((one["date"], json.loads(Path(one["data"]).read_text())) for one in told["reports"])
            rows = [(date, one["model"], one["counts"]) for date, page in pages for one in page["models"]]
        case "verify":
            rows = [(told["date"], one["model"], one) for one in told["models"] if one["balanced"]]
    names = "eligible", "predicted", "rejected", "pending"
    return {(date, model): [one[name] for name in names] for date, model, one in rows}


def expected(setting, command, camera=None, date=None, until=None, model=None, state=NONE, **more):
    """Count SHOTS; `more` are the options of one command."""
    is_open = command in ("status", "list") and date is None and more.get("days") != 2
    days = [day for day in (BEFORE, DAY) if is_open or (date or DAY) <= day <= (until or date or DAY)]
    rows = [(number, *shot) for number, shot in SHOTS.items() if camera in (None, shot[0])]
    rows = [row for row in rows if row[2] or setting.time not in OURS]
    names = {name: 3 + place for place, name in enumerate(MODELS) if model in (None, name)}
    of_days = [row for row in rows if row[2] in days]
    counts = {(day, name): Counter() for day in days for name in names}
    for row, (name, place) in product(of_days, names.items()):
        counts[row[2], name].update([row[place].split()[0]])
    read_by = (P, R, *([AGAIN] * (setting.taken == "column")))
    match command:
        case "cameras list":
            return Counter(row[1] for row in rows if row[2] and (row[3] != NONE or setting.time in OURS))
        case "events":
            return sorted({(row[1], f"{row[2]}T10:00") for row in of_days if row[3] in read_by})
        case "explain":
            return [(name, rows[more["image"] - 1][place].split()[0]) for name, place in names.items()]
        case "export":
            return [sum(found[one] for found in counts.values()) for one in (P, R, NONE)]
        case "sample":
            found = [row[1:3] for row in of_days if row[names[model]] == P]
            return [min(len(set(found) if "one-per-event" in more else found), more.get("count", 100))]
        case "list" if state in ("changed", "missing"):
            is_changed = state == "changed" and setting.time not in OURS and setting.location != "url"
            return [(row[0], None) for row in of_days if is_changed and row[3] == P]
        case "list" if "json" in more:
            return sum(row[2] is None for row in rows if camera is None)  # one that is not listed is of no camera
        case "list":
            wanted = {R: (R, AGAIN), NONE: (NONE, AGAIN)}.get(state, (state,))
            return sorted((row[0], name) for row in of_days for name, place in names.items() if row[place] in wanted)
    return {key: [found.total(), *(found[one] for one in (P, R, NONE))] for key, found in counts.items()}
