"""`infer verify --replay`: what was changed since a run is found, and named by what changed."""

import hashlib
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.support.detectors import Quadrants
from tests.support.networks import ChannelMeans, save
from tests.support.projects import DATE, PLAIN, Project


@pytest.fixture(scope="module")
def ended_day(tmp_path_factory, built_models):
    project = Project(tmp_path_factory.mktemp("replay") / "project", built_models)
    project.add_photos(12)
    project.run_day()
    project.keep()
    return project


@pytest.fixture
def day(ended_day):
    """As it was when the run ended."""
    ended_day.restore()
    return ended_day


def replayed(project, amount, *flags, exit_code=0):
    return project.infer_json("verify", "--replay", amount, *flags, exit_code=exit_code)["replay"]


def edit_label(day):
    day.write("UPDATE infer_predictions SET label = 'blue' WHERE picture = 1")


def other_libraries(day):
    edit_label(day)
    day.write('UPDATE infer_runs SET versions = replace(versions, \'"torch": "\', \'"torch": "1.\')')


def replace_file(day):
    shutil.copy(day.photos / "0001.jpg", day.photos / "0000.jpg")


def empty_file(day):
    (day.photos / "0000.jpg").write_bytes(b"")


def edit(**values):
    """Change columns of the first row by SQL."""

    def change(day):
        for name, value in values.items():
            day.write(f"UPDATE infer_predictions SET {name} = {value} WHERE picture = 1")

    return change


def other_size(day):
    day.write("UPDATE infer_pictures SET size = size + 1 WHERE id = 1")


def flip_a_byte(day):
    (file,) = day.folder.glob("models/colors/*/variants/cpu-openvino-fp32/model.bin")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def damage_manifest(day):
    (file,) = day.folder.glob("models/colors/*/manifest.json")
    file.write_text(file.read_text().replace('"resize": ', '"resize" '))


def other_decoder(day):
    """Golden pixels that no decoder here gives, as if the model had been built with another one."""
    (file,) = day.folder.glob("models/colors/*/manifest.json")
    golden = file.with_name("golden") / "pixels.npy"
    before = golden.read_bytes()
    pixels = np.load(golden)
    pixels[0, 0, 0] += 40
    np.save(golden, pixels)
    sums = [hashlib.sha256(data).hexdigest() for data in (before, golden.read_bytes())]
    file.write_text(file.read_text().replace(*sums))


@pytest.mark.always
@pytest.mark.parametrize(
    ("change", "num_wrong", "cause", "detail"),
    [
        (edit_label, 1, "answer", "stored blue 0.9947, now red 0.9947; libraries and processor are those of its run"),
        (other_libraries, 1, "answer", "torch 1.2"),
        (replace_file, 1, "picture", "its file was replaced"),
        (empty_file, 1, "picture", "its file was replaced"),
        (other_size, 1, "answer", "stored size"),
        (edit(width=80), 1, "answer", "stored width 80, now 40"),
        (
            edit(output="""replace(output, '"index": 1', '"index": 2')"""),
            1,
            "answer",
            "stored green as class 2, which is blue",
        ),
        (
            edit(output="""replace(output, '"green"', '"blue"')"""),
            1,
            "answer",
            "stored blue as class 1, which is green",
        ),
        (flip_a_byte, 12, "network", "changed since it was built"),
        (damage_manifest, 12, "network", "manifest.json: not JSON"),
        (other_decoder, 12, "decoder", "levels, 2 are allowed"),
    ],
)
def test_what_changed_since_a_row_was_written_is_named(day, change, num_wrong, cause, detail):
    assert replayed(day, "100%")["differences"] == []
    change(day)
    found = replayed(day, "100%", exit_code=1)
    assert (found["num_rows"], found["num_compared"], len(found["differences"])) == (12, 12, num_wrong)
    one = found["differences"][0]
    assert one["cause"] == cause
    assert detail in one["detail"]
    assert one["image_id"] == "1" or num_wrong > 1


def test_a_sample_says_how_many_wrong_rows_it_would_have_found(day):
    found = replayed(day, "3")
    assert (found["num_rows"], found["num_chosen"], found["num_compared"]) == (12, 3, 3)
    assert (1 - found["undetected_share"]) ** 3 == pytest.approx(0.01)
    assert "if 78 % of all rows were wrong, one of them would have" in day.infer("verify", "--replay", "3")
    assert day.infer_json("verify", "--replay", "101%", exit_code=2)["error"].startswith("--replay: ")


def list_by_a_table(day):
    day.write("DELETE FROM infer_predictions")
    day.own_table()
    day.run_day()


def test_what_can_not_be_compared_is_told_and_is_no_difference(day):
    list_by_a_table(day)
    (day.photos / "0000.jpg").unlink()
    day.write("DELETE FROM shots WHERE id = 2")
    day.run_day()  # which notices it
    unreadable = {"its file can't be read: not_found": 1}
    found = replayed(day, "100%", "--date", DATE)
    assert (found["num_rows"], found["num_compared"]) == (11, 10)  # of the day, whose images the source lists
    assert found["not_compared"] == unreadable
    assert replayed(day, "12")["not_compared"] == unreadable | {"the source no longer lists the image": 1}
    shutil.rmtree(day.folder / "models")
    assert any("is not in" in why for why in replayed(day, "12")["not_compared"])


def test_rows_of_a_variant_that_can_not_run_here_are_told_apart_and_no_difference(day):
    day.write("UPDATE infer_predictions SET variant = 'cuda-fp16'")
    edit_label(day)
    found = replayed(day, "100%")
    assert all("instead of cuda-fp16, which can't run here" in why for why in found["not_compared"])
    told = {why.partition(" in ")[0]: count for why, count in found["not_compared"].items()}
    assert told == {"another answer": 1, "the same answer": 11}
    assert (found["num_compared"], found["differences"]) == (0, [])
    replace_file(day)
    (difference,) = replayed(day, "100%", exit_code=1)["differences"]
    assert difference["cause"] == "picture"


def test_a_row_is_that_of_the_listed_image_with_its_location(day):
    """In a table of the user's own, whose ids came back for other pictures."""
    list_by_a_table(day)
    day.write("INSERT INTO shots SELECT id, replace(location, '0000', '0003'), added_at FROM shots WHERE id = 1")
    day.write("INSERT INTO shots SELECT * FROM shots WHERE id = 2")  # the same picture
    day.write("UPDATE shots SET location = replace(location, '0000', '0006') WHERE id = 1")
    assert day.run_day()["predicted"] == 2
    found = replayed(day, "100%")
    assert (found["num_rows"], found["num_compared"]) == (14, 13)
    assert found["not_compared"] == {"the source no longer lists the image": 1}


def test_a_vector_is_compared_by_direction_and_length(tmp_path):
    """Also one of zeros, of a black picture."""
    project = Project(tmp_path / "project")
    save(ChannelMeans(), project.folder / "means.ts")
    project.infer("model", "build", "means.ts", "--name", "means", "--output", "raw", *PLAIN)
    Image.new("RGB", (40, 30)).save(project.photos / "black.png")
    project.add_photos(3)
    project.run_day()
    stored = dict(project.rows("SELECT picture, vector FROM infer_predictions"))
    assert any(not any(vector) for vector in stored.values())
    assert replayed(project, "100%")["differences"] == []

    def found_after(statement, *values):
        project.write(f"UPDATE infer_predictions SET {statement}", *values)
        return {int(one["image_id"]) for one in replayed(project, "100%", exit_code=1)["differences"]}

    picture, vector = next((one, vector) for one, vector in stored.items() if any(vector))
    for factor in (0, 0.9, 1.1, 2):
        edited = (np.frombuffer(vector, "<f4") * np.float32(factor)).tobytes()
        assert found_after("vector = ? WHERE picture = ?", edited, picture) == {picture}
    project.write("UPDATE infer_predictions SET vector = ? WHERE picture = ?", vector, picture)
    assert found_after("label = 'red', vector_dim = 4") == set(stored)


def test_a_second_network_gets_the_stored_objects_again(tmp_path):
    """However the detector would find them now, which is not opened."""
    project = Project(tmp_path / "project")
    save(Quadrants(), project.folder / "quadrants.ts")
    save(ChannelMeans(), project.folder / "means.ts")
    project.add_photos(3)
    flags, detector = ["--size", "64", "--set", "mean=0,0,0", "--set", "std=1,1,1"], ["--output", "detection"]
    project.infer("model", "build", "quadrants.ts", "--name", "animals", *detector, "--set", "head=boxes", *flags)
    flags += ["--recipe", "stretch", "--set", "of=animals", "--set", "min_score=0.2"]
    project.infer("model", "build", "means.ts", "--name", "species", *flags)
    project.run_day()
    ((taken,),) = project.rows("SELECT sum(num_objects) FROM infer_predictions WHERE detector_id IS NOT NULL")
    assert taken > 3
    of_object = "WHERE object_id = (SELECT id FROM infer_objects WHERE picture = 1 AND object = {})"
    project.write("UPDATE infer_object_predictions SET score = score / 2 " + of_object.format(1))
    (found,) = replayed(project, "100%", "--date", DATE, exit_code=1)["differences"]
    assert (found["model"], found["cause"]) == ("species", "answer")
    assert found["detail"].startswith("object 1: stored ")
    ((label,),) = project.rows("SELECT label FROM infer_object_predictions " + of_object.format(2))
    project.write("UPDATE infer_object_predictions SET label = 'kiwi' " + of_object.format(2))
    answers = project.infer("verify", "--image", "1", "--model", "species", exit_code=1).splitlines()
    assert [line for line in answers if line.startswith("  object 2: kiwi ") and f" stored, {label} " in line]
    assert sum(line.startswith("  object ") for line in answers) == 4
    project.write("UPDATE infer_object_predictions SET label = ? WHERE label = 'kiwi'", label)
    shutil.rmtree(project.folder / "models" / "animals")
    ((why, count),) = replayed(project, "100%")["not_compared"].items()
    assert (count, why.startswith("animals@")) == (6, True)
