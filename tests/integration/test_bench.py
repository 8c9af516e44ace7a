"""`infer bench` as a user calls it."""

import json


def test_the_images_of_a_day_are_measured_and_nothing_is_written(project):
    project.add_photos(40)
    before = (project.folder / "infer.db").read_bytes()
    names = ["turbo", "lane", "executor"]
    answer = project.infer_json("bench", "--date", "2026-11-20", *(f"--only={name}" for name in names))
    assert [row["name"] for row in answer["rows"]] == names
    assert [row["num_images"] for row in answer["rows"]] == [40, 40, 40]
    assert answer["broken"] == {}
    assert answer["bottleneck"].keys() == {"loading_ms", "model_ms"}
    assert (project.folder / "infer.db").read_bytes() == before


def test_a_broken_file_of_a_folder_is_named_and_the_others_are_measured(project):
    project.add_photos(5)
    (project.photos / "0002.jpg").write_bytes(b"not a photo")
    said = project.infer("bench", "--images", "photos", "--only", "drop-broken", "--only", "turbo")
    assert f"broken: {project.photos / '0002.jpg'}: unsupported_format" in said
    assert "1 broken dropped" in said
    assert "turbo: " in said


def test_what_is_not_there_is_named(project):
    project.add_photos(3)
    for arguments, words in (
        (("--date", "2026-11-19"), "no images on 2026-11-19"),
        (("--images", "nowhere"), "no images in nowhere"),
        (("--images", "photos", "--only", "tubro"), "no strategy 'tubro'"),
    ):
        error = json.loads(project.infer("bench", *arguments, "--json", exit_code=2))
        assert words in error["error"]
