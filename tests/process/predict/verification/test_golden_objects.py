from contextlib import nullcontext

import numpy as np
import pytest

from infer_app.base.errors import ModelError
from infer_app.cli.model.model import unproven_boxes
from infer_app.predict.runtimes.torchscript import build_cpu_variant
from infer_app.predict.verification.agreement import measure_parity
from infer_app.predict.verification.golden import check_golden, golden_outputs, golden_parity, golden_pixels
from tests.support.detectors import Cells, Faint, OneBox, Pair, Quadrants, built_detector
from tests.support.networks import loader_of


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Each network once, with what loads and predicts its golden images."""
    folder, built = tmp_path_factory.mktemp("models"), {}

    def open_built(module):
        name = type(module).__name__
        if name not in built:
            artifact = built_detector(folder, module)
            built[name] = artifact, loader_of(artifact), build_cpu_variant(artifact)
        return built[name]

    return open_built


def rows_of(artifact, raw):
    return raw.reshape(len(raw), *artifact.manifest.output.detection.shapes[0])


def changed(predict, artifact, change, only_loaded=False):
    """The model, with a change of its outputs: of all, or only of those for the pixels as loaded."""
    calls = []

    def other(pixels):
        calls.append(len(pixels))
        raw = predict(pixels)
        if only_loaded and len(calls) == 1:
            return raw
        rows = rows_of(artifact, raw.copy())
        change(rows)
        return rows.reshape(len(rows), -1)

    return other


@pytest.mark.parametrize("module", [Quadrants(), Pair(), Cells()], ids=lambda module: type(module).__name__)
def test_a_detector_passes_its_own_check(build, module):
    artifact, load, predict = build(module)
    check_golden(artifact, load, predict)
    parity = artifact.manifest.variants["cpu-torchscript"]["parity"]
    assert (parity["object_agreement"], parity["num_objects"] > 3, "label_agreement" in parity) == (1, True, False)


def lower_scores(rows):
    rows[:, :, 4] -= 0.02


def move_boxes(rows):
    rows[:, :, 0] += 16


def swap_classes(rows):
    rows[:, :, 5] += 2


def lose_the_best(rows):
    rows[:, :, 4] *= rows[:, :, 4] < rows[:, :, 4].max(1, keepdims=True)


def nan_in_a_box(rows):
    rows[0, 0, 0] = np.nan


def raise_scores(rows):
    """Relative to the largest number of the outputs, which is a coordinate, it is nothing."""
    rows[:, 4:] += 0.01


def add_small_boxes(rows):
    rows[rows[:, :, 4] < 0.25] = [1.0, 1, 9, 9, 0.9, 0]


NOT_FOUND, NEW = (
    r"an object '\d' with score 0.\d+ is not found any more",
    "an object '\\d' with .* was not found at build",
)
INT8 = "cpu-openvino-int8"


@pytest.mark.parametrize(
    ("module", "change", "message", "only_loaded", "variant"),
    [
        (Quadrants(), lower_scores, "outputs differ by", False, None),
        (Quadrants(), move_boxes, NOT_FOUND, False, None),
        (Quadrants(), swap_classes, NOT_FOUND, False, None),
        (Quadrants(), nan_in_a_box, "outputs are not finite, or the head fails on them", False, None),
        (Cells(), raise_scores, "outputs differ by 0.0", False, None),
        (Quadrants(), lose_the_best, NOT_FOUND, True, None),
        (Quadrants(), add_small_boxes, NEW, True, None),
        (Quadrants(), lose_the_best, "outputs differ by", False, INT8),
    ],
)
def test_other_objects_for_the_golden_pixels_are_noticed(build, module, change, message, only_loaded, variant):
    artifact, load, predict = build(module)
    artifact.manifest.variants[INT8] = {"tolerance": {"relative": 0.2, "cosine": 0.9}}
    with pytest.raises(ModelError, match=rf"golden check failed: image \d: {message}"):
        check_golden(artifact, load, changed(predict, artifact, change, only_loaded), variant)


def reverse(rows):
    rows[:] = rows[:, ::-1].copy()


def nudge(rows):
    rows[:, :, 0] += 2
    rows[:, :, 4] -= 0.04


@pytest.mark.parametrize(
    ("change", "only_loaded", "variant"),
    [
        (reverse, False, None),  # the order in which a network lists its objects does not matter
        (nudge, True, None),  # two levels of a pixel may move scores and boxes a little
        (lower_scores, False, INT8),  # another dtype is held to its own tolerance
    ],
)
def test_small_differences_are_none(build, change, only_loaded, variant):
    artifact, load, predict = build(Quadrants())
    artifact.manifest.variants[INT8] = {"tolerance": {"relative": 0.2, "cosine": 0.9}}
    check_golden(artifact, load, changed(predict, artifact, change, only_loaded), variant)


def swap_axes(rows):
    rows[:, :, :4] = rows[:, :, [1, 0, 3, 2]]


def use_another_unit(rows):
    rows[:, :, :4] /= 64


def turn_classes(rows):
    rows[:, :, 5] = (rows[:, :, 5] + 1) % 3


@pytest.mark.parametrize(
    ("module", "change", "variant", "parity", "is_noticed"),
    [
        *((Faint(), change, None, {}, True) for change in (swap_axes, use_another_unit, turn_classes)),
        *((Faint(), change, INT8, {"best_kept": 1.0}, True) for change in (swap_axes, use_another_unit)),
        (Faint(), turn_classes, INT8, {"best_kept": 1.0}, False),  # which rounding may turn where scores are that low
        (Faint(), swap_axes, INT8, {"best_kept": 0.4}, False),  # which the build lost too
        (Faint(), swap_axes, INT8, {}, False),  # not measured
        *((OneBox(), swap_axes, variant, {"best_kept": 1.0}, False) for variant in (None, INT8)),  # too few
    ],
)
def test_boxes_are_compared_also_where_no_golden_image_shows_an_object(
    build, module, change, variant, parity, is_noticed
):
    """By the best objects, unless they prove nothing."""
    artifact, load, predict = build(module)
    assert artifact.manifest.variants["cpu-torchscript"]["parity"]["num_objects"] == 0
    artifact.manifest.variants[INT8] = {"parity": parity}
    check_golden(artifact, load, predict, variant)
    message = "of the golden images' 40 best objects 0 have the same boxes"
    with pytest.raises(ModelError, match=message) if is_noticed else nullcontext():
        check_golden(artifact, load, changed(predict, artifact, change), variant)


@pytest.mark.parametrize(
    ("module", "change", "kept"),
    [(Faint(), None, 1.0), (Faint(), swap_axes, 0.0), (OneBox(), None, None), (Cells(), None, None)],
)
def test_the_build_measures_how_many_of_the_best_objects_a_variant_keeps(build, module, change, kept):
    artifact, _, predict = build(module)
    predict = changed(predict, artifact, change) if change else predict
    assert golden_parity(artifact, predict(golden_pixels(artifact))).best_kept == kept
    if not change:
        assert artifact.manifest.variants["cpu-torchscript"]["parity"].get("best_kept") == kept
    assert ("golden=FOLDER" in unproven_boxes(artifact.manifest)) == (type(module).__name__ != "Cells")


def test_parity_of_a_detector_is_of_its_objects(build):
    artifact, _, _ = build(Quadrants())
    expected = golden_outputs(artifact)
    rows = rows_of(artifact, expected.copy())
    lower_scores(rows)
    parity = measure_parity(expected, rows.reshape(len(rows), -1), artifact)
    assert (parity.object_agreement, parity.label_agreement) == (1.0, None)
    assert parity.worst_score_difference == pytest.approx(0.02)
    assert parity.relative_difference == pytest.approx(0.02 / rows_of(artifact, expected)[:, :, 4].max())
    swap_classes(rows)
    assert measure_parity(expected, rows.reshape(len(rows), -1), artifact).object_agreement == 0
    nothing = measure_parity(expected * 0, expected * 0, artifact)
    assert (nothing.num_objects, nothing.object_agreement, nothing.cosine) == (0, None, 1.0)
    assert "object_agreement" not in nothing.to_json()
    not_finite = measure_parity(expected, expected * np.nan, artifact)
    assert (not_finite.object_agreement, not_finite.cosine >= 0) == (0, False)
