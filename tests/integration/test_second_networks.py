"""A second network and its detector, on the real command: which objects it takes, when, and what becomes pending."""

import shutil
from datetime import date

import pytest

from infer_app.base.day import Day
from infer_app.base.settings.load import load_settings
from infer_app.tables.project_database import open_project_database, read_in_use
from tests.support import patches
from tests.support.networks import NotANumberForWhite, save
from tests.support.pasted_photos import save_detector
from tests.support.patches import DETECTOR, SPECIES, VECTORS, add_pictures, draw, is_species, rows_of, taken
from tests.support.projects import DATE, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CROPS = "SELECT image_id, object, label FROM infer_current_crops WHERE model = '{}' ORDER BY 1, 2"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A folder with the models `cells`, `species` and `vectors`, and what they were built from."""
    folder = tmp_path_factory.mktemp("second-networks")
    patches.build_all(folder)
    return folder


@pytest.fixture
def project(tmp_path, sources, monkeypatch):
    """A project in which models can be built; the file `detected` counts the images that the detector gets."""
    project = Project(tmp_path / "project")
    shutil.copytree(sources, project.folder, dirs_exist_ok=True)
    monkeypatch.setenv("DETECTED", str(project.folder / "detected"))
    return project


def run(project, *names, exit_code=0):
    """Return what a run reports of each of its models."""
    named = [word for name in names for word in ("--model", name)]
    report = project.run_day(*named, "--max-rejected", "100%", exit_code=exit_code)
    return {one["model"]: one for one in report.get("models", [report])}


def num_detected(project):
    return patches.count_detected(project.folder / "detected")


def build_version(project, arguments, *more):
    """Build another version, put it in use and return its id."""
    return project.infer_json("model", "build", *arguments, *more, "--use")["model_id"]


def pending(project, *names):
    """What a run of the day would select for the versions in use; `infer list` leaves days to former versions."""
    day, loaded = Day.of(date.fromisoformat(DATE), "UTC"), load_settings(project.folder / "infer.toml")
    in_use = read_in_use(loaded)
    with open_project_database(loaded, read_only=True) as opened:
        return {name: {new.image_id for new in opened.source.select_new(day, in_use[name])} for name in names}


@pytest.mark.always
def test_the_detector_sees_each_image_once_and_files_without_an_object_to_take_are_not_opened(project):
    pictures = add_pictures(project, 10)
    run(project, "cells")
    assert num_detected(project) == 10
    for image_id, drawn in pictures.items():
        if not any(map(is_species, drawn)):
            (project.photos / f"{int(image_id) - 1:03}.png").unlink()
    assert run(project, "species")["species"]["predicted"] == 10
    assert project.rows(CROPS.format("species")) == taken(pictures, is_species)
    run(project)
    version = build_version(project, SPECIES, "--set", "min_score=0.8")
    again = run(project)
    assert {name: one["selected"] for name, one in again.items()} == {"cells": 0, "species": 10, "vectors": 0}
    assert num_detected(project) == 10
    lowered = taken(pictures, lambda patch: is_species(patch, 0.8))
    assert project.rows(f"SELECT count(*) FROM infer_object_predictions WHERE model_id = '{version}'") == [
        (len(lowered),)
    ]
    assert project.rows(CROPS.format("species")) == lowered


def test_what_is_pending_is_exactly_what_changed_and_a_run_makes_it_as_if_nothing_had_happened(project):
    add_pictures(project, 6)
    everything = {str(number) for number in range(1, 7)}
    run(project)
    undisturbed = rows_of(project)
    nothing, all_of_seconds = ({"cells": set(), "species": some, "vectors": some} for some in (set(), everything))
    assert pending(project, *patches.NAMES) == nothing

    project.infer("retry", "--image", "3", "--model", "species")
    assert pending(project, *patches.NAMES) == nothing | {"species": {"3"}}
    project.infer("retry", "--image", "4", "--model", "cells")
    assert pending(project, *patches.NAMES) == {"cells": {"4"}, "species": {"3", "4"}, "vectors": {"4"}}
    before = num_detected(project)
    assert {name: one["predicted"] for name, one in run(project).items()} == {"cells": 1, "species": 2, "vectors": 1}
    assert num_detected(project) == before + 1
    assert rows_of(project) == undisturbed

    save_detector(project.folder, factor=0.95)
    first, second = detector_id(project), build_version(project, DETECTOR)
    assert pending(project, *patches.NAMES) == dict.fromkeys(patches.NAMES, everything)
    project.infer("model", "use", f"cells@{first}")
    assert pending(project, *patches.NAMES) == nothing
    assert rows_of(project) == undisturbed
    told = project.infer("model", "use", f"cells@{second}")
    assert f"of species, vectors what is of cells@{first[:8]}'s objects is not shown until" in told
    run(project)
    assert {row[8] for row in rows_of(project)["infer_predictions"]} == {None, second}
    before = num_detected(project)
    project.infer("model", "use", f"cells@{first}")
    assert pending(project, *patches.NAMES) == all_of_seconds
    run(project)
    assert num_detected(project) == before
    assert {table: [row for row in rows if row[1] != second] for table, rows in rows_of(project).items()} == undisturbed


def detector_id(project):
    ((model_id,),) = project.rows("SELECT id FROM infer_models WHERE name = 'cells' AND in_use_since IS NOT NULL")
    return model_id


def test_of_a_file_that_was_replaced_meanwhile_no_object_is_classified_by_the_former_boxes(project):
    pictures = add_pictures(project, 6)
    run(project, "cells")
    former = rows_of(project)["infer_objects"]
    pictures["3"] = draw(project.photos / "002.png", ["blue", "green", "red", "green", "blue", "red"])
    (project.photos / "003.png").unlink()
    run(project, "species", "vectors")
    rejected = project.rows("SELECT picture, reason, detail FROM infer_rejections ORDER BY 1, 2")
    assert [row[:2] for row in rejected] == [(3, "other_file")] * 2 + [(4, "not_found")] * 2
    assert rows_of(project)["infer_objects"] == former
    left = {image_id: drawn for image_id, drawn in pictures.items() if image_id not in ("3", "4")}
    assert project.rows(CROPS.format("species")) == taken(left, is_species)
    alone = {"INFER_RUN__MODELS": "species"}
    explained = project.infer_json("explain", "--image", "3", **alone)["models"]
    listed = project.list_images("pending", DATE, "--model", "species", **alone)
    helps = {one["missing"]["command"] for one in explained if one["model"] == "species"}
    helps |= {one["command"] for one in listed if one["image_id"] == "3" and one["model"] == "species"}
    assert helps == {"infer retry --image 3"}
    assert project.infer_json("retry", "--image", "3", **alone)["second_networks"] == ["vectors"]
    run(project)
    del pictures["4"]
    assert project.rows(CROPS.format("species")) == taken(pictures, is_species)
    assert [row[:2] for row in project.rows(CROPS.format("vectors"))] == [row[:2] for row in taken(pictures)]


def test_what_fails_on_one_object_rejects_its_image_alone_and_for_that_network_alone(project):
    """A function of the user's raises for black, and a network gives NaN for white."""
    pictures = add_pictures(project, 10)
    pictures["4"] = draw(project.photos / "003.png", ["red", "green", "white"])
    pictures["5"] = draw(project.photos / "004.png", ["black", "green", "blue"])
    broken = project.photos / "008.png"
    broken.write_bytes(broken.read_bytes()[:200])
    save(NotANumberForWhite(), project.folder / "white.ts")
    fails_for_white = [{"colors.ts": "white.ts", "vectors": "white"}.get(word, word) for word in VECTORS]
    patches.build(project.folder, fails_for_white)
    run(project)
    rejected = project.rows(
        "SELECT name, picture, reason, detail FROM infer_rejections JOIN infer_models ON id = model_id ORDER BY 1, 2"
    )
    ends_early = next(detail for name, _, _, detail in rejected if name == "cells")
    of_seconds = (9, "truncated", ends_early)
    assert rejected == [
        ("cells", 9, "truncated", ends_early),
        ("species", 5, "model_error", "object 0: crop: ValueError: it is too dark"),
        ("species", *of_seconds),
        ("vectors", *of_seconds),
        ("white", 4, "non_finite_output", "object 2: the model's output has a NaN or an infinity"),
        ("white", *of_seconds),
    ]
    del pictures["9"]
    for name, bad, takes in (("species", "5", is_species), ("vectors", None, bool), ("white", "4", bool)):
        good = {image_id: drawn for image_id, drawn in pictures.items() if image_id != bad}
        assert [row[:2] for row in project.rows(CROPS.format(name))] == [row[:2] for row in taken(good, takes)]


def test_only_images_with_an_object_tell_whether_a_second_network_fails(project):
    """One that fails on all of few objects rejects none, however many images have none or are unreadable."""
    for number in range(72):
        draw(project.photos / f"{number}.png", ["black"] if number % 6 == 0 else [])
    project.add("photos")
    few = ("--max-rejected", "25")
    report = project.run_day("--model", "cells", "--model", "species", *few, exit_code=3)
    assert [one["predicted"] for one in report["models"]] == [72, 60]
    for number in range(0, 72, 6):
        (project.photos / f"{number}.png").write_text("please log in")
    report = project.run_day("--model", "species", *few, exit_code=3)["models"][1]
    assert report["day"] == {"eligible": 72, "predicted": 60, "rejected": 0, "pending": 12}
    assert "12 of 12 images are unsupported_format" in report["stopped"]
    assert project.rows("SELECT * FROM infer_rejections") == []

    other = {"date": "2026-11-19"}
    (project.photos / "other").mkdir()
    for number in range(72):
        draw(project.photos / f"other/{number}.png", ["red"] if number == 1 else [])
        if number % 6 == 0:
            (project.photos / f"other/{number}.png").write_bytes(b"")
    project.add("photos/other", **other)
    report = project.infer_json("run", "--date", other["date"], "--lookback", "0", "--model", "species", *few)
    days = [one["day"] for one in report["models"]]
    assert days == [{"eligible": 72, "predicted": 60, "rejected": 12, "pending": 0}] * 2
    assert [one["day_state"]["level"] for one in report["models"]] == ["good", "good"]


def test_what_ends_a_worker_in_one_network_rejects_the_image_for_that_network_alone(project):
    """A crop function crashes on cyan, and takes too long for yellow."""
    pictures = add_pictures(project, 10)
    for image_id, color in (("4", "cyan"), ("7", "yellow")):
        pictures[image_id] = draw(project.photos / f"00{int(image_id) - 1}.png", [color, "green", "blue"])
    project.run_day("--max-rejected", "100%", INFER_IMAGES__TIMEOUT_S="4", INFER_RUN__EXECUTOR="cpu")
    rejected = "SELECT name, picture, reason, stage, detail FROM infer_rejections JOIN infer_models ON id = model_id"
    assert project.rows(f"{rejected} ORDER BY 2") == [
        (
            "species",
            4,
            "decoder_crash",
            "transform",
            "the crop function died twice by SIGSEGV, the second time alone",
        ),
        ("species", 7, "decode_timeout", "transform", "the crop function exceeded the time limit"),
    ]
    assert project.rows("SELECT count(*) FROM infer_predictions") == [(28,)]
    assert [row[:2] for row in project.rows(CROPS.format("vectors"))] == [row[:2] for row in taken(pictures)]
    del pictures["4"], pictures["7"]
    assert project.rows(CROPS.format("species")) == taken(pictures, is_species)
