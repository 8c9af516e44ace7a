"""`infer bench` as a user calls it."""

from pathlib import Path

import pytest

from infer_app.cli.run.bench import bench
from infer_app.cli.terminal.options import BenchOptions
from infer_app.errors import UsageError
from infer_app.telemetry.summary_line import describe_others


def test_a_folder_is_measured_its_broken_file_named_and_the_bottleneck_said(project):
    project.add_photos(40)
    (project.photos / "0002.jpg").write_bytes(b"not a photo")
    before = (project.folder / "infer.db").read_bytes()
    said = project.infer("bench", "--date", "2026-11-20", "--only", "lane", "--only", "executor")
    assert "40 images, " in said
    assert f"broken: {project.photos / '0002.jpg'}: unsupported_format" in said
    assert "1 broken dropped" in said
    assert said.splitlines()[-1].startswith(("bottleneck: model; ", "bottleneck: loading; "))
    assert (project.folder / "infer.db").read_bytes() == before


def test_json_has_every_figure(project):
    project.add_photos(2)
    answer = project.infer_json("bench", "--images", "photos", "--only", "turbo")
    assert (answer["num_images"], answer["broken"], answer["bottleneck"]) == (2, {}, None)
    (row,) = answer["rows"]
    assert (row["name"], row["num_images"], row["note"]) == ("turbo", 2, describe_others(row["others"]))
    assert min(row["seconds"], row["peak_pss"]) > 0 <= row["others"] < 1


@pytest.mark.parametrize(
    ("folder", "date", "only", "words"),
    [
        (None, "2026-11-19", [], "no images on 2026-11-19"),
        (Path("nowhere"), "yesterday", [], "no images in nowhere"),
        (Path("photos"), "yesterday", ["tubro"], "no strategy 'tubro'"),
    ],
)
def test_what_is_not_there_is_named(project, monkeypatch, folder, date, only, words):
    monkeypatch.chdir(project.folder)
    project.upgrade()
    with pytest.raises(UsageError, match=words):
        bench(BenchOptions(images=folder, date=date, limit=10, only=only, as_json=True))
