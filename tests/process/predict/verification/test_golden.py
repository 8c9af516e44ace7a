import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Reason
from infer_app.base.errors import ModelChanged, PixelsChanged
from infer_app.base.size import Size
from infer_app.build.network.golden_set import make_golden_set, synthetic_images
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.runtimes.torchscript import build_cpu_variant, make_cpu_variant
from infer_app.predict.verification.agreement import find_min_agreement, measure_parity
from infer_app.predict.verification.golden import check_golden, check_rounded, golden_outputs, golden_pixels
from infer_app.predict.verification.outputs import KINDS, open_decoder
from infer_app.predict.verification.parity import Parity
from tests.support.networks import Means, built, loader_of, random_pixels
from tests.support.photos import jpeg


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return built(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def load(artifact):
    return loader_of(artifact)


@pytest.fixture(scope="module")
def predict(artifact):
    return build_cpu_variant(artifact)


def test_some_of_the_golden_images_are_checked_and_named_by_their_numbers(artifact, load, predict):
    def only_the_third(data):
        assert data == artifact.read(artifact.manifest.golden[2])
        return load(data)

    check_golden(artifact, only_the_third, predict, numbers=[2])
    with pytest.raises(PixelsChanged, match="golden check failed: image 3: a pixel differs"):
        check_golden(artifact, lambda data: only_the_third(data)[..., ::-1], predict, numbers=[2])


def raise_bad_image(pixels):
    raise BadImage(Reason.MODEL_ERROR, "preprocess: FileNotFoundError: /srv/table.npy")


@pytest.mark.parametrize(
    ("recipe", "change", "message"),
    [
        ({}, raise_bad_image, "image 1: preprocess: FileNotFoundError: /srv/table.npy"),
        ({}, lambda pixels: pixels[..., ::-1], r"image 1: a pixel differs by \d+ levels, 2 are allowed"),
        ({"exif": "ignore"}, lambda pixels: pixels, "image 2: a pixel differs"),
        ({}, lambda pixels: pixels[:8, :8], r"image 1: pixels are \(8, 8, 3\) uint8 instead of \(16, 16, 3\)"),
    ],
    ids=["preprocess raises", "channels swapped", "orientation ignored", "another size"],
)
def test_other_pixels_are_noticed(artifact, predict, recipe, change, message):
    load = loader_of(artifact, **recipe)
    with pytest.raises(PixelsChanged, match=f"golden check failed: {message}"):
        check_golden(artifact, lambda data: change(load(data)), predict, "cpu-torchscript")


def test_golden_images_are_varied_and_the_same_every_time():
    images = synthetic_images()
    assert images == synthetic_images.__wrapped__()
    opened = {name: Image.open(io.BytesIO(data)) for name, data in images.items()}
    assert {(image.format, image.mode) for image in opened.values()} == {("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGB")}
    assert len({image.size for image in opened.values()}) == 4
    assert opened["grey-rotated.jpg"].getexif()[274] == 6


def test_a_large_input_has_fewer_golden_images(tmp_path):
    large, small = Recipe("stretch", "1280x820"), Recipe("stretch", 16)
    assert [len(make_golden_set(None, recipe, None).names) for recipe in (large, small)] == [2, 4]
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(jpeg(20, 20))
    assert [len(make_golden_set(tmp_path, recipe, None).photos) for recipe in (large, small)] == [2, 3]


@pytest.mark.parametrize("swap", ["mean", "std"])
def test_another_normalisation_is_noticed(artifact, load, swap):
    spec = artifact.manifest.input_spec
    other = replace(spec, **{swap: getattr(spec, swap)[::-1]})
    variant = make_cpu_variant(artifact.read("source.ts"), other, Size.square(16))
    with pytest.raises(ModelChanged, match=r"golden check failed: image 1: outputs differ by") as caught:
        check_golden(artifact, load, variant)
    assert "nothing was written" in caught.value.hint


def test_two_levels_of_a_pixel_are_allowed_and_three_are_not(artifact, predict):
    expected = iter([*golden_pixels(artifact), *golden_pixels(artifact)])

    def off_by(levels):
        pixels = next(expected).copy()
        pixels[0, 0, 0] = pixels[0, 0, 0] - levels if pixels[0, 0, 0] > 100 else pixels[0, 0, 0] + levels
        return pixels

    check_golden(artifact, lambda data: off_by(2), predict)
    with pytest.raises(PixelsChanged, match="differs by 3 levels"):
        check_golden(artifact, lambda data: off_by(3), predict)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[:, :2], r"outputs are \(4, 2\) float32 instead of \(4, 3\)"),
        (lambda rows: rows * np.nan, "image 1: outputs differ by nan"),
        (lambda rows: rows * np.inf, "image 1: outputs differ by (inf|nan)"),
        (lambda rows: rows[::-1], "outputs differ"),
        (lambda rows: rows + 0.05, "outputs differ"),
    ],
)
def test_other_outputs_are_noticed(artifact, load, predict, spoil, message):
    with pytest.raises(ModelChanged, match=message):
        check_golden(artifact, load, lambda pixels: spoil(predict(pixels)))


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda rows: rows[:, ::-1], r"labelled '\w+' instead of '\w+'"), (lambda rows: rows * np.nan, "outputs are not")],
)
def test_a_label_that_changes_with_the_loaded_pixels_is_noticed(artifact, change, message):
    """Only pixels that are not those of the build are predicted."""
    answers = [golden_outputs(artifact), change(golden_outputs(artifact)[2:])]
    expected = golden_pixels(artifact)
    loaded = iter([*expected[:2], *(expected[2:] ^ 1)])
    with pytest.raises(PixelsChanged, match=f"image [34]: {message}"):
        check_golden(artifact, lambda _: next(loaded), lambda _: answers.pop(0))


@pytest.mark.parametrize("name", ["labels.txt", "golden/2.jpg", "golden/outputs.npy"])
def test_changed_files_are_noticed(tmp_path, load, predict, name):
    artifact = built(tmp_path)
    (artifact.folder / name).write_bytes(b"green\nred\nblue\n")
    with pytest.raises(ModelChanged, match=f"{name}: changed since it was built"):
        check_golden(artifact, load, predict)


def test_labels_are_read_once_a_model_is_opened_and_not_with_its_first_images(tmp_path):
    artifact = built(tmp_path)
    (artifact.folder / "labels.txt").write_text("green\nred\nblue\n")
    with pytest.raises(ModelChanged, match=r"labels\.txt: changed since it was built"):
        open_decoder(artifact)


ROWS = [[1.0, -2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("expected", "actual", "cosine", "agreement", "worst", "relative"),
    [
        (ROWS, ROWS, 1.0, 1.0, 0.0, 0.0),
        ([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [2.0, 0.0]], 0.0, 0.5, 2.0, 1.0),
        ([[1e-9]], [[-1e-9]], 1.0, 1.0, 2e-9, 2.0),  # one number has no direction
        (ROWS, [[np.nan] * 2] * 2, np.nan, None, np.nan, np.nan),  # which passes no tolerance
        (ROWS, [[np.inf] * 2] * 2, np.nan, None, np.inf, np.inf),
    ],
)
def test_parity_tells_the_worst(artifact, expected, actual, cosine, agreement, worst, relative):
    vectors = replace(artifact, manifest=replace(artifact.manifest, output=OutputSpec("embedding")))
    parity = measure_parity(np.array(expected), np.array(actual), vectors)
    figures = [parity.cosine, parity.worst_difference, parity.relative_difference]
    assert figures == pytest.approx([cosine, worst, relative], rel=1e-3, nan_ok=True)
    assert agreement in (None, parity.label_agreement)
    assert (parity.num_images, "num_objects" in parity.to_json()) == (len(expected), False)


def test_a_folder_of_golden_images_is_used(tmp_path):
    folder = tmp_path / "golden"
    folder.mkdir()
    (folder / "README.txt").write_text("not an image")
    for number in range(10):
        pixels = random_pixels(1, size=20 + number, seed=number)[0]
        Image.fromarray(np.asarray(pixels)).save(folder / f"{number}.PNG")
    artifact = built(tmp_path / "in", Means(), golden=folder)
    assert artifact.manifest.golden == tuple(f"golden/{number}.png" for number in range(1, 9))
    assert artifact.read("golden/1.png") == (folder / "0.PNG").read_bytes()


def test_more_must_be_kept_of_labels_than_of_anything_else():
    assert [find_min_agreement(OutputSpec(kind), None) for kind in ("classification", "embedding")] == [0.99, 0.97]
    assert find_min_agreement(OutputSpec(), 0.5) == 0.5


@pytest.mark.parametrize(
    ("output", "num_outputs", "score"),
    [
        (OutputSpec(), 5, 0.8),
        (OutputSpec("embedding"), 5, 0.9),
        (OutputSpec("regression"), 1, 0.75),  # the cosine of a single number is 1, whatever it is
    ],
)
def test_a_model_is_judged_by_its_labels_its_directions_or_its_one_number(artifact, output, num_outputs, score):
    manifest = replace(artifact.manifest, output=output, num_outputs=num_outputs)
    parity = Parity(20, cosine=0.9, label_agreement=0.8, worst_difference=1.0, relative_difference=0.25)
    assert KINDS[output.kind].agreement(manifest, parity) == score


@pytest.mark.parametrize(
    ("output", "change", "message"),
    [
        ("classification", lambda rows: rows + 0.04 * rows.max() * (np.arange(3) == 1), None),
        ("classification", lambda rows: np.roll(rows, 1, 1), "labelled"),
        ("classification", lambda rows: rows * np.nan, "not finite"),
        ("embedding", lambda rows: rows + 0.05 * np.abs(rows).max() * np.float32([1, -1, 1]), None),
        ("embedding", lambda rows: np.roll(rows, 1, 1), "cosine"),
    ],
)
def test_a_quantised_network_is_compared_by_what_its_outputs_mean(tmp_path, output, change, message):
    artifact = built(tmp_path, output=output, **({} if output == "classification" else {"labels": None}))
    rows = change(golden_outputs(artifact))
    if message is None:
        assert check_rounded(artifact, rows).relative_difference > artifact.manifest.tolerance.relative
        return
    with pytest.raises(ModelChanged, match=message):
        check_rounded(artifact, rows)
