import shutil
from contextlib import nullcontext
from dataclasses import asdict

import pytest

from infer_app.artifact.artifact import open_artifact
from infer_app.base.errors import DayHeld, ModelError, UsageError
from infer_app.base.machine import has_vnni
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_FP32, OPENVINO_INT8, TORCHSCRIPT
from infer_app.base.packages import install
from infer_app.build.variants import openvino_variants as add_variants_module
from infer_app.build.variants.calibration import Calibration
from infer_app.build.variants.openvino_variants import INT8_SETTINGS, add_variants
from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.model.build import build
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.runtimes.openvino import Int8Settings
from infer_app.predict.verification import agreement
from infer_app.predict.verification.agreement import measure_parity
from infer_app.predict.verification.golden import check_golden, golden_outputs, golden_pixels
from infer_app.predict.workers.bundle import pack, unpack
from tests.conftest import need
from tests.process.build.variants.conftest import a_run_is_active
from tests.support.box import open_box
from tests.support.networks import Network, NoSuchOperator, built, loader_of, predict_rows, save_photos

need("nncf")
NUM_PHOTOS = 24


@pytest.fixture(scope="module", autouse=True)
def box(tmp_path_factory):
    """A CPU without bf16, which has one variant less."""
    flags = ["avx_vnni"] if has_vnni() else []
    with open_box(tmp_path_factory.mktemp("box")) as box:
        box.computes(*flags)
        yield box


@pytest.fixture
def cpu(box):
    """cpu("avx512_bf16") has these instructions until the test ends."""
    before = (box.proc / "cpuinfo").read_text()
    yield box.computes
    (box.proc / "cpuinfo").write_text(before)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory, photos):
    """With all variants; int8 had to keep half of the labels. For tests that change nothing."""
    artifact = built(tmp_path_factory.mktemp("calibrated"), Network(), labels=None)
    said = []
    artifact = add_variants(artifact, Calibration(photos, 0.5), said.append)
    attempt, told = said
    assert attempt.startswith(f"{OPENVINO_INT8}: everything in int8: keeps ")
    assert told == f"{OPENVINO_INT8}: it was judged on 8 images of yours, 300 are needed: no run takes it"
    return artifact


def parity_of(artifact, variant):
    actual = predict_rows(open_variant(artifact, variant), golden_pixels(artifact))
    return measure_parity(golden_outputs(artifact), actual, artifact)


def check(artifact, variant):
    """As every run does it."""
    model = open_variant(artifact, variant)
    check_golden(artifact, loader_of(artifact), model, variant, model.batch_size)


def test_variants_never_change_the_model_s_id(calibrated, tmp_path):
    plain = built(tmp_path, Network(), labels=None, source=calibrated.manifest.source)
    with_fp32 = add_variants(plain, None, print)
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
    assert fp32["calibration"]["num_images"] == int8["calibration"]["num_images"] == NUM_PHOTOS // 3
    assert fp32["calibration"]["relative_difference"] < 1e-5 < int8["calibration"]["relative_difference"]
    assert int8["min_agreement"] == 0.5
    assert int8["settings"] == asdict(INT8_SETTINGS[0])  # the first attempt is good enough


def test_an_int8_that_misses_its_bar_is_recorded_with_its_best_attempt_and_told(tmp_path, photos, monkeypatch):
    """Of an embedding the bar is the worst cosine, and int8 never keeps it to the sixth digit."""
    monkeypatch.setattr(agreement, "MIN_JUDGED", 8)
    monkeypatch.setattr(
        add_variants_module, "INT8_SETTINGS", (Int8Settings("all"), Int8Settings("most", first_in_fp32=1))
    )
    said, artifact = [], built(tmp_path, Network(), labels=None, output="embedding")
    artifact = add_variants(artifact, Calibration(photos, 1.0), said.append)
    details = artifact.manifest.variants[OPENVINO_INT8]
    *attempts, told = said
    assert [told.split(": ")[1] for told in attempts] == ["all", "most"]
    assert told.startswith(f"{OPENVINO_INT8}: cosine {details['calibration']['cosine']:.4f} at worst; 100.0% are")
    assert told.endswith("no run takes it")
    check(artifact, OPENVINO_INT8)


def test_int8_has_a_tolerance_of_its_own_and_fp32_has_not(calibrated):
    manifest = calibrated.manifest
    golden = manifest.variants[OPENVINO_INT8]["parity"]
    own = manifest.tolerance_of(OPENVINO_INT8)
    assert own.relative == 2 * golden["relative_difference"] > manifest.tolerance.relative
    assert 1 - own.cosine == pytest.approx(max(1e-4, 2 * (1 - golden["cosine"])))
    assert own.pixel_levels == manifest.tolerance.pixel_levels
    assert manifest.tolerance_of(OPENVINO_FP32) == manifest.tolerance_of(TORCHSCRIPT) == manifest.tolerance


def test_too_few_images_are_refused_with_their_number_and_change_nothing(network, tmp_path):
    folder = save_photos(tmp_path / "few", 20)
    (folder / "00.jpg").write_bytes(b"no photo")
    (folder / "notes.txt").write_text("neither")
    with pytest.raises(UsageError, match="has 19 different images that can be decoded, calibration needs 20"):
        add_variants(network, Calibration(folder), print)
    assert open_artifact(network.folder) == network


def test_a_model_that_was_built_before_gains_a_variant_which_is_left_as_it_is(tmp_path):
    built(tmp_path)
    again = built(tmp_path)
    assert (again.reused, list(again.manifest.variants)) == (True, [TORCHSCRIPT])
    artifact = add_variants(again, None, print)
    assert list(artifact.manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    assert list(built(tmp_path).manifest.variants) == [TORCHSCRIPT, OPENVINO_FP32]
    before = {path: path.stat().st_mtime_ns for path in artifact.folder.rglob("*")}
    assert add_variants(artifact, None, print) is artifact
    assert {path: path.stat().st_mtime_ns for path in artifact.folder.rglob("*")} == before


def test_int8_without_the_overflow_fix_is_for_cpus_with_vnni_and_those_without_build_their_own(
    calibrated, photos, tmp_path, cpu
):
    artifact = open_artifact(shutil.copytree(calibrated.folder, tmp_path / "copy"))
    variants = []
    for flags in (["avx_vnni"], []):
        cpu(*flags)
        if variants:  # that was built for another CPU
            with pytest.raises(ModelError, match=r"cpu-openvino-int8 can't run on .*: this CPU has no VNNI"):
                open_variant(artifact, OPENVINO_INT8)
        artifact = add_variants(artifact, Calibration(photos, 0.5), print)
        check(artifact, OPENVINO_INT8)
        variants.append(artifact.manifest.requires(OPENVINO_INT8))
    assert variants == [{"instructions": "vnni"}, {}]
    cpu("avx_vnni")
    check(artifact, OPENVINO_INT8)  # it runs on every CPU


@pytest.mark.parametrize("is_running", [False, True])
def test_calibrating_again_replaces_int8_unless_a_run_has_begun_meanwhile(calibrated, photos, tmp_path, is_running):
    before = open_artifact(shutil.copytree(calibrated.folder, tmp_path / "copy"))
    with pytest.raises(DayHeld) if is_running else nullcontext():
        add_variants(before, Calibration(photos, 0.6), print, a_run_is_active if is_running else lambda: None)
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


def test_int8_that_is_asked_for_and_can_not_be_made_is_an_error_before_anything_is_built(photos, installed):
    installed.remove("nncf")
    with pytest.raises(ModelError, match="int8 needs NNCF") as caught:
        build(BuildOptions(source="gone.ts", name="colours", calibrate=photos))
    assert caught.value.hint == install("int8")


def test_a_model_that_openvino_lacks_an_operator_of_is_torchscript_and_that_is_told(tmp_path, photos):
    said, artifact = [], built(tmp_path, NoSuchOperator())
    assert add_variants(artifact, None, said.append) is artifact
    (told,) = said
    assert told.startswith(f"{OPENVINO_FP32}: left out, OpenVINO can't convert this model: ")
    assert told.endswith("; it runs as TorchScript")
    with pytest.raises(ModelError, match="OpenVINO can't convert this model"):
        add_variants(artifact, Calibration(photos), said.append)


def test_a_cpu_that_computes_bf16_adds_a_variant_without_files_of_its_own_that_opens_on_such_cpus_alone(
    network, cpu, monkeypatch, tmp_path
):
    """Also to a model that was built where there is none. It travels with the graph that it computes."""
    before = add_variants(network, None, print)
    cpu("avx512_bf16")
    artifact = add_variants(before, None, print)
    assert list(artifact.manifest.variants) == [*before.manifest.variants, OPENVINO_BF16]
    assert not [name for name in artifact.manifest.files if OPENVINO_BF16 in name]
    details = artifact.manifest.variants[OPENVINO_BF16]
    assert "0 images of yours" in agreement.why_unfit(artifact.manifest, OPENVINO_BF16, details)
    # no difference at all on a CPU where OpenVINO computes in fp32
    assert details["tolerance"]["relative"] >= 2 * details["parity"]["relative_difference"]
    artifact.verify()
    check(artifact, OPENVINO_BF16)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert open_variant(open_artifact(unpack(pack(artifact, OPENVINO_BF16))), OPENVINO_BF16).batch_size
    cpu()  # OpenVINO would compute in fp32 there; a node of a cluster opens what another machine has planned
    with pytest.raises(ModelError, match=r"cpu-openvino-bf16 can't run on .*: this CPU does not compute bf16"):
        open_variant(artifact, OPENVINO_BF16)
