"""How variants are judged on images of the user's; a CPU that computes bf16 is a stand-in."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from infer_app.artifact.artifact import open_artifact, record_variant
from infer_app.base.errors import UsageError
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_INT8
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.build.variants.calibration import (
    FITTED_FILE,
    MAX_FITTING,
    MAX_IMAGES,
    MIN_IMAGES,
    Calibration,
    load_calibration,
)
from infer_app.build.variants.judge_variants import judge_variants
from infer_app.build.variants.openvino_variants import add_variants
from tests.support.networks import built, save_photos


@pytest.fixture(autouse=True)
def _cpu_with_bf16(box):
    box.computes("avx512_bf16")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A root, and 24 photos in it and one file that is none."""
    folder = save_photos(tmp_path_factory.mktemp("root") / "photos")
    (folder / "10a.jpg").write_bytes(b"no photo")
    return ReadLimits((folder,), 1 << 20), sorted(map(str, folder.iterdir()))


def test_a_judgement_on_the_images_of_a_day_is_recorded_and_one_on_more_images_may_be_kept(tmp_path, images):
    artifact, (limits, locations) = add_variants(built(tmp_path), None, print), images
    for count, keep_better, num_judged in ((25, False, 24), (21, True, 24), (21, False, 20)):
        judged = judge_variants(artifact.folder, limits, locations[:count], 0.9, keep_better)
        assert {variant: one.meets_bar for variant, one in judged.items()} == {OPENVINO_BF16: False}  # of so few
        one = judged[OPENVINO_BF16]
        assert (one.parity.num_images, one.num_images) == (num_judged, count - 1)  # one can't be decoded
        recorded = open_artifact(artifact.folder).manifest.variants[OPENVINO_BF16]
        assert (recorded["calibration"], recorded["min_agreement"]) == (one.parity.to_json(), 0.9)
    open_artifact(artifact.folder).verify()
    with pytest.raises(UsageError, match="5 of the images can judge, 20 are needed"):
        judge_variants(artifact.folder, limits, locations[:5], 0.9)


# The photos by which int8 is fitted and judged

NUM_PHOTOS = 24


def test_photos_calibrate_or_choose_or_judge(network, photos):
    images = load_calibration(network, Calibration(photos))
    parts = [images.calibration, images.choosing.pixels, images.judging.pixels]
    assert [len(one) for one in parts] == [NUM_PHOTOS // 3] * 3
    assert len(np.unique(np.concatenate(parts), axis=0)) == NUM_PHOTOS
    assert images.choosing.expected.shape == images.judging.expected.shape == (NUM_PHOTOS // 3, 5)
    assert len(set(images.fitted)) == NUM_PHOTOS * 2 // 3


def test_files_with_the_same_bytes_are_one_photo(network, photos, tmp_path):
    for copy in ("a", "b"):
        shutil.copytree(photos, tmp_path / "both" / copy)
    images = load_calibration(network, Calibration(tmp_path / "both"))
    assert [len(one) for one in (images.calibration, images.choosing.pixels, images.judging.pixels)] == [8, 8, 8]


def test_of_many_photos_most_judge_and_of_too_many_some_are_taken_from_all_over_the_folder(network, photos, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(MAX_IMAGES * 3 // 2):
        start, rest = (data := (photos / f"{number % NUM_PHOTOS:02}.jpg").read_bytes())[:2], data[2:]
        (many / f"{number:04}.jpg").write_bytes(start + b"\xff\xfe\0\6%04d" % number + rest)  # with a comment
    images = load_calibration(network, Calibration(many))
    parts = [images.calibration, images.choosing.pixels, images.judging.pixels]
    assert [len(one) for one in parts] == [MAX_FITTING, MAX_FITTING, MAX_IMAGES - 2 * MAX_FITTING]
    found = Calibration(many).files(Size.square(224))
    assert found[:3] == [many / name for name in ("0000.jpg", "0001.jpg", "0003.jpg")]
    num_large = [len(Calibration(many).files(Size.square(length))) for length in (4_000, 8_000)]
    assert num_large == [22, MIN_IMAGES]  # a GiB of pixels, and more for the least number of images


def test_photos_that_int8_was_fitted_to_do_not_judge(tmp_path, images, capsys):
    artifact, (limits, locations) = add_variants(built(tmp_path), None, print), images
    photos = [Path(one) for one in locations if Path(one).stat().st_size > 10]
    fitted = "\n".join(hashlib.sha256(one.read_bytes()).hexdigest() for one in photos[:4])
    needs = {"requires": {"instructions": "vnni"}}  # which this CPU lacks
    for former in ("0" * 64, fitted):  # the files of one that is built anew lie elsewhere
        record_variant(artifact, OPENVINO_INT8, needs, {FITTED_FILE: former.encode()})
    judged = judge_variants(artifact.folder, limits, locations, 0.9)
    assert judged[OPENVINO_BF16].num_images == 20
    assert "4 images left out: int8 was fitted to them" in capsys.readouterr().out


def test_a_folder_that_is_none_is_a_wrong_flag(photos):
    with pytest.raises(UsageError, match="no folder .*gone"):
        Calibration(photos.with_name("gone"), 0.5)
