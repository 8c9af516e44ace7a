import shutil
from contextlib import nullcontext

import pytest
import torch

from infer_app.errors import DayHeld, ModelError, UsageError
from infer_app.model_variants import OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT
from infer_app.models.artifact.artifact import open_artifact
from infer_app.models.artifact.specs import OutputSpec
from infer_app.models.building import openvino_variants as add_variants_module
from infer_app.models.building.calibration import Calibration, load_calibration
from infer_app.models.building.golden_set import load_pixels
from infer_app.models.building.openvino_variants import add_variants, agreement_score
from infer_app.models.runtimes import openvino
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.selection import measure
from infer_app.models.verification.golden import check_golden, golden_outputs, golden_pixels
from infer_app.models.verification.parity import measure_parity
from tests.conftest import need
from tests.support.networks import Means, Network, NoSuchOperator, built, save_photos

need("nncf")
NUM_PHOTOS = 24


@pytest.fixture(scope="module", autouse=True)
def _quick():
    """On a CPU without bf16, which has one variant less."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "ROUND_S", 0.001)
        patch.setattr(add_variants_module, "computes_bf16", lambda: False)
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_photos(tmp_path_factory.mktemp("photos") / "photos", NUM_PHOTOS)


@pytest.fixture
def said():
    return []


@pytest.fixture
def network(tmp_path):
    return built(tmp_path, Network(), labels=None)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory, photos):
    """With all variants; int8 had to keep half of the labels, and nothing was said. For tests that change nothing."""
    artifact = built(tmp_path_factory.mktemp("calibrated"), Network(), labels=None)
    said = []
    artifact = add_variants(artifact, Calibration(photos, 0.5), said.append)
    assert said == []
    return artifact


def parity_of(artifact, variant):
    model, pixels = open_variant(artifact, variant), golden_pixels(artifact)
    actual = torch.cat([model(batch) for batch in torch.split(pixels, model.batch_size)])
    return measure_parity(golden_outputs(artifact), actual, artifact)


def check(artifact, variant):
    """As every run does it."""
    model = open_variant(artifact, variant)
    check_golden(artifact, lambda data: load_pixels(data, artifact.manifest.recipe), model, variant, model.batch_size)


def test_variants_never_change_the_model_s_id(calibrated, tmp_path, said):
    plain = built(tmp_path, Network(), labels=None, source=calibrated.manifest.source)
    with_fp32 = add_variants(plain, None, said.append)
    for artifact in (plain, with_fp32, calibrated, open_artifact(calibrated.folder)):
        manifest = artifact.manifest
        assert (manifest.model_id, manifest.expected_id()) == (plain.manifest.model_id,) * 2
    assert list(with_fp32.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    assert list(calibrated.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32, OPENVINO_INT8]
    for artifact in (with_fp32, calibrated):
        assert open_artifact(artifact.folder) == artifact
        artifact.verify()


def test_every_variant_is_held_against_the_source(calibrated):
    for variant, details in calibrated.manifest.variants.items():
        assert details["parity"] == pytest.approx(parity_of(calibrated, variant).to_json(), abs=1e-6)  # by rounding
        check(calibrated, variant)
    fp32, int8 = (calibrated.manifest.variants[variant] for variant in (OPENVINO_FP32, OPENVINO_INT8))
    assert fp32["parity"]["num_images"] == int8["parity"]["num_images"] == 4
    assert fp32["calibration"]["num_images"] == int8["calibration"]["num_images"] == NUM_PHOTOS // 2
    assert fp32["calibration"]["relative_difference"] < 1e-5 < int8["calibration"]["relative_difference"]


def test_an_int8_that_keeps_enough_meets_its_bar(calibrated):
    details = calibrated.manifest.variants[OPENVINO_INT8]
    assert (details["min_agreement"], details["meets_bar"]) == (0.5, True)
    assert details["first_convolutions_in_fp32"] == 0  # the first attempt is good enough
    assert details["is_faster"] == (details["ms_when_built"]["int8"] < details["ms_when_built"]["fp32"])


def test_an_int8_that_misses_its_bar_is_recorded_with_its_best_attempt_and_told(tmp_path, photos, said, monkeypatch):
    """Of an embedding the bar is the worst cosine, and int8 never keeps it to the sixth digit."""
    monkeypatch.setattr(add_variants_module, "KEEP_FLOAT", (0, 1))
    artifact = built(tmp_path, Network(), labels=None, output=OutputSpec("embedding"))
    artifact = add_variants(artifact, Calibration(photos, 1.0), said.append)
    details = artifact.manifest.variants[OPENVINO_INT8]
    assert details["meets_bar"] is False
    (told,) = said
    assert told.startswith(f"{OPENVINO_INT8}: {details['calibration']['cosine']:.1%} kept, 100.0% are needed")
    assert f"--variant {OPENVINO_INT8}" in told
    check(artifact, OPENVINO_INT8)


def test_int8_has_a_tolerance_of_its_own_and_fp32_has_not(calibrated):
    manifest = calibrated.manifest
    golden = manifest.variants[OPENVINO_INT8]["parity"]
    own = manifest.tolerance_of(OPENVINO_INT8)
    assert own.relative == 2 * golden["relative_difference"] > manifest.tolerance.relative
    assert 1 - own.cosine == pytest.approx(2 * (1 - golden["cosine"]))
    assert own.pixel_levels == manifest.tolerance.pixel_levels
    assert manifest.tolerance_of(OPENVINO_FP32) == manifest.tolerance_of(TORCHSCRIPT) == manifest.tolerance


def test_too_few_images_are_refused_with_their_number_and_change_nothing(network, tmp_path, said):
    folder = save_photos(tmp_path / "few", 20)
    (folder / "00.jpg").write_bytes(b"no photo")
    (folder / "notes.txt").write_text("neither")
    with pytest.raises(UsageError, match="has 19 images that can be decoded, calibration needs 20"):
        add_variants(network, Calibration(folder), said.append)
    assert open_artifact(network.folder) == network


def test_a_model_that_was_built_before_gains_a_variant_which_is_left_as_it_is(tmp_path, said):
    built(tmp_path)
    again = built(tmp_path)
    assert (again.reused, list(again.manifest.variants)) == (True, [TORCHSCRIPT])
    artifact = add_variants(again, None, said.append)
    assert list(artifact.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    assert list(built(tmp_path).manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    before = {path: path.stat().st_mtime_ns for path in artifact.folder.rglob("*")}
    assert add_variants(artifact, None, said.append) is artifact
    assert {path: path.stat().st_mtime_ns for path in artifact.folder.rglob("*")} == before


@pytest.mark.parametrize("is_running", [False, True])
def test_calibrating_again_replaces_int8_unless_a_run_has_begun_meanwhile(
    calibrated, photos, tmp_path, said, is_running
):
    before = open_artifact(shutil.copytree(calibrated.folder, tmp_path / "copy"))
    with pytest.raises(DayHeld) if is_running else nullcontext():
        add_variants(before, Calibration(photos, 0.6), said.append, a_run_is_active if is_running else lambda: None)
    after = open_artifact(before.folder)
    kept = {path: value for path, value in before.manifest.files.items() if is_running or OPENVINO_INT8 not in path}
    assert after.manifest.files.items() >= kept.items()
    names = [{path.rpartition("/")[2] for path in one.manifest.files} for one in (before, after)]
    assert names[0] == names[1]
    is_same = after.manifest.variants[OPENVINO_INT8] == before.manifest.variants[OPENVINO_INT8]
    assert (is_same, after.manifest.variants[OPENVINO_INT8]["min_agreement"]) == (
        is_running,
        0.5 if is_running else 0.6,
    )
    after.verify()
    check(after, OPENVINO_INT8)


def a_run_is_active():
    raise DayHeld("run 1 is active")


def test_int8_that_is_asked_for_and_can_not_be_made_is_an_error(network, photos, said, monkeypatch):
    monkeypatch.setattr(openvino, "can_quantise", lambda: False)
    with pytest.raises(ModelError, match="int8 needs NNCF") as caught:
        add_variants(network, Calibration(photos), said.append)
    assert caught.value.hint == "pip install 'infer_app[int8]'"
    open_artifact(network.folder).verify()


def test_a_model_that_openvino_lacks_an_operator_of_is_torchscript_and_that_is_told(tmp_path, photos, said):
    artifact = built(tmp_path, NoSuchOperator())
    assert add_variants(artifact, None, said.append) is artifact
    (told,) = said
    assert told.startswith(f"{OPENVINO_FP32}: left out, OpenVINO can't convert this model: ")
    assert told.endswith("; it runs as TorchScript")
    with pytest.raises(ModelError, match="OpenVINO can't convert this model"):
        add_variants(artifact, Calibration(photos), said.append)


def test_the_photos_that_judge_are_not_those_that_int8_was_fitted_to(network, photos):
    images = load_calibration(network, Calibration(photos))
    assert (len(images.calibration), len(images.evaluation)) == (NUM_PHOTOS // 2, NUM_PHOTOS // 2)
    every = torch.cat([images.calibration, images.evaluation])
    assert len(torch.unique(every, dim=0)) == NUM_PHOTOS
    assert images.expected.shape == (NUM_PHOTOS // 2, 5)


@pytest.mark.parametrize(
    ("folder", "share", "message"),
    [("photos", share, "is not a share") for share in (0.0, 1.5, float("nan"))] + [("gone", 0.5, "no folder .*gone")],
)
def test_a_bar_that_is_no_share_and_a_folder_that_is_none_are_wrong_flags(photos, folder, share, message):
    with pytest.raises(UsageError, match=message):
        Calibration(photos.with_name(folder), share)


def test_a_model_with_labels_is_judged_by_them(tmp_path, photos, said):
    artifact = add_variants(built(tmp_path, Means()), Calibration(photos), said.append)
    kept = artifact.manifest.variants[OPENVINO_INT8]["calibration"]["label_agreement"]
    assert artifact.manifest.variants[OPENVINO_INT8]["meets_bar"] == (kept >= 0.97)


def test_of_a_single_number_its_difference_is_what_must_be_small(tmp_path):
    """Its cosine is 1, whatever it is."""
    artifact = built(tmp_path, OneNumber(), labels=None, output=OutputSpec("regression"))
    parity = measure_parity(torch.tensor([[2.0], [4.0]]), torch.tensor([[2.0], [3.0]]), artifact)
    assert (parity.cosine, agreement_score(artifact, parity)) == (1.0, 0.75)


class OneNumber(torch.nn.Module):
    def forward(self, pixels):
        return pixels.mean((1, 2, 3)).unsqueeze(1)
