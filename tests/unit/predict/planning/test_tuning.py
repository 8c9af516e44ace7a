import json
import re
from dataclasses import replace

import pytest

from infer_app.artifact.artifact import TUNING_FOLDER
from infer_app.base.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.predict.planning import tuning as tuning_module
from infer_app.predict.planning.tuning import (
    Layout,
    Speed,
    load_all,
    load_tuning,
    new_tuning,
    save_tuning,
)
from tests.support.networks import built

SPEEDS = {TORCHSCRIPT: Speed(4, 14.25), OPENVINO_FP32: Speed(2, 11.5)}
LAYOUTS = {OPENVINO_FP32: (Layout(2, 1, 170.5), Layout(1, 2, 120.0))}


@pytest.fixture
def tuning():
    return replace(new_tuning(2, SPEEDS), layouts=LAYOUTS, worker_bytes=150 << 20)


def the_file(folder):
    (path,) = (folder / TUNING_FOLDER).iterdir()
    return path


def test_what_was_saved_is_loaded(tuning, tmp_path):
    assert save_tuning(tmp_path, 2, tuning)
    assert load_tuning(tmp_path, 2) == tuning
    assert load_all(tmp_path) == [tuning]
    assert (tuning.layout_of(OPENVINO_FP32), tuning.layout_of(TORCHSCRIPT)) == (Layout(2, 1, 170.5), None)
    assert oct(the_file(tmp_path).stat().st_mode)[-3:] == "644"  # cron may run as someone else


def test_other_versions_of_the_libraries_are_measured_anew(tuning, tmp_path, monkeypatch):
    save_tuning(tmp_path, 2, tuning)
    monkeypatch.setattr(tuning_module, "library_versions", lambda: {"torch": "99.0"})
    assert load_tuning(tmp_path, 2) is None
    assert load_all(tmp_path) == [tuning]  # shown all the same


def test_another_host_has_figures_of_its_own(tuning, tmp_path, monkeypatch):
    save_tuning(tmp_path, 2, tuning)
    assert load_tuning(tmp_path, 4) is None  # as many cores are another host
    monkeypatch.setattr(tuning_module, "_processor", lambda: "Another CPU (R) 9000")
    assert load_tuning(tmp_path, 2) is None
    other = new_tuning(2, SPEEDS)
    save_tuning(tmp_path, 2, other)
    assert (other.host, load_tuning(tmp_path, 2)) == ("Another CPU (R) 9000, 2 cores", other)
    assert {one.host for one in load_all(tmp_path)} == {tuning.host, other.host}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[: len(data) // 2], id="cut"),
        pytest.param(lambda data: b"[]", id="list"),
        pytest.param(lambda data: data.replace(b'"host"', b'"hosts"'), id="key"),
        pytest.param(lambda data: data.replace(b'"batch_size"', b'"batches"'), id="field"),
        pytest.param(lambda data: json.dumps(json.loads(data) | {"speeds": []}).encode(), id="kind"),
        pytest.param(lambda data: b"[" * 100_000, id="deep"),
        pytest.param(lambda data: b"\xff\xfe\x00", id="no text"),
    ],
)
def test_a_damaged_file_is_measured_anew(tuning, tmp_path, damage):
    save_tuning(tmp_path, 2, tuning)
    path = the_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert (load_tuning(tmp_path, 2), load_all(tmp_path)) == (None, [])
    assert save_tuning(tmp_path, 2, tuning)
    assert load_tuning(tmp_path, 2) == tuning


def test_the_figures_are_no_part_of_the_model(tuning, tmp_path):
    artifact = built(tmp_path)
    assert (load_tuning(artifact.folder, 2), load_all(artifact.folder)) == (None, [])
    save_tuning(artifact.folder, 2, tuning)
    artifact.verify()


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        *((figure, value) for figure in ("batch_size", "workers", "threads") for value in (0, -1, "x", 2.5, 10**6)),
        *(("ms_per_image", value) for value in (0, -1, "x", None, [], float("nan"))),
        *(("worker_bytes", value) for value in (-5, "x")),
    ],
)
def test_a_figure_that_none_can_be_is_measured_anew(tuning, tmp_path, figure, value):
    save_tuning(tmp_path, 2, tuning)
    path = the_file(tmp_path)
    path.write_text(re.sub(rf'"{figure}": [\d.]+', f'"{figure}": {json.dumps(value)}', path.read_text()))
    assert load_tuning(tmp_path, 2) is None


def test_a_folder_that_can_not_be_made_is_no_error(tuning, tmp_path):
    (tmp_path / TUNING_FOLDER).write_text("a file in its place")
    assert save_tuning(tmp_path, 2, tuning) is False
    assert (load_tuning(tmp_path, 2), load_all(tmp_path)) == (None, [])
