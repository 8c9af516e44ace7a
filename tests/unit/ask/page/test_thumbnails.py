import io
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageFile

from infer_app.artifact.recipe import Recipe
from infer_app.ask.page import thumbnails
from infer_app.ask.page.thumbnails import MAX_BYTES, SIZE, PictureOfObject, Thumbnail, ThumbnailLimits, thumbnails_of
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.decoder import decode_image
from tests.support.jpegs import encoded
from tests.support.photos import jpeg


@pytest.fixture
def limits(tmp_path):
    return ThumbnailLimits(ReadLimits((tmp_path,), max_bytes=10_000_000), max_pixels=1_000_000)


@pytest.fixture
def here():
    """Thumbnails in this process, what it sets for all pictures undone."""
    most_pixels = Image.MAX_IMAGE_PIXELS
    yield thumbnails_of
    ImageFile.LOAD_TRUNCATED_IMAGES, Image.MAX_IMAGE_PIXELS = False, most_pixels


def save(path, data):
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_thumbnail_is_a_small_jpeg(tmp_path, limits, here, kind, mode):
    location = save(tmp_path / "a", encoded(Image.new("RGB", (600, 300), (9, 200, 9)).convert(mode), kind))
    with Image.open(io.BytesIO(here([location], limits)[location].jpeg)) as small:
        assert (small.format, small.mode, small.size) == ("JPEG", "RGB", (SIZE, SIZE // 2))


def test_a_larger_one_for_boxes_is_never_larger_than_the_picture(tmp_path, limits, here):
    limits = replace(limits, size=320, max_bytes=10**6)
    wide = save(tmp_path / "wide.png", encoded(Image.new("RGB", (800, 400)), "PNG"))
    small = save(tmp_path / "small.png", encoded(Image.new("RGB", (90, 60)), "PNG"))
    made = [Image.open(io.BytesIO(one.jpeg)).size for one in here([wide, small], limits).values()]
    assert made == [(320, 160), (90, 60)]


@pytest.mark.parametrize("orientation", [1, 6], ids=["upright", "turned"])
def test_of_an_object_its_box_with_a_little_around_it(tmp_path, limits, here, orientation):
    """The box is a share of the upright picture; what is sharp in the file is sharp in the thumbnail."""
    picture = Image.new("RGB", (1000, 800), (0, 0, 255))
    picture.paste((255, 0, 0), (700, 400, 800, 600))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = picture if orientation == 1 else picture.transpose(Image.Transpose.ROTATE_90)
    location = save(tmp_path / "a.jpg", encoded(stored, "JPEG", exif=exif))
    wanted = PictureOfObject(location, 0.7, 0.5, 0.1, 0.25)
    with Image.open(io.BytesIO(here([wanted], limits)[wanted].jpeg)) as small:
        assert small.size == (80, 160)  # of 120 by 240 pixels
        shown = np.asarray(small).astype(int)
    is_red = shown[..., 0] > shown[..., 2]
    rows, columns = np.nonzero(is_red.any(1))[0], np.nonzero(is_red.any(0))[0]
    np.testing.assert_allclose([columns[0], columns[-1], rows[0], rows[-1]], [6.7, 73.3, 13.3, 146.7], atol=2)


@pytest.mark.parametrize(
    "box", [(0.0, 0.0, 1.0, 1.0), (1.0, 1.0, 0.0, 0.0), (0.999, 0.0, 0.001, 0.9), (0.5, 0.5, 0, 0)]
)
def test_a_box_at_an_edge_or_without_a_size_is_shown(tmp_path, limits, here, box):
    wanted = PictureOfObject(save(tmp_path / "a.png", encoded(Image.new("RGB", (60, 40)), "PNG")), *box)
    assert wanted in here([wanted], limits)


def deep_grey(value):
    return Image.fromarray(np.full((90, 120), value, np.uint16))


def half_clear(mode):
    return Image.new("RGBA", (120, 90), (200, 90, 30, 40)).convert(mode)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (deep_grey(4000), "PNG"),
        (deep_grey(4000), "TIFF"),
        (deep_grey(60000), "PNG"),
        (Image.new("I", (120, 90), 40000), "TIFF"),
        (half_clear("RGBA"), "PNG"),
        (half_clear("LA"), "PNG"),
        (half_clear("RGBA").quantize(8), "PNG"),
        (Image.new("CMYK", (120, 90), (10, 90, 160, 20)), "JPEG"),
        (Image.new("1", (120, 90), 1), "PNG"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.mode}-{value.getpixel((0, 0))}",
)
def test_a_thumbnail_shows_what_the_model_gets(tmp_path, limits, here, image, kind):
    location = save(tmp_path / "a", encoded(image, kind))
    read = decode_image((tmp_path / "a").read_bytes(), Recipe("stretch", 16), limits.max_pixels).rgb
    with Image.open(io.BytesIO(here([location], limits)[location].jpeg)) as small:
        shown = np.asarray(small)
    np.testing.assert_allclose(shown.mean((0, 1)), read.mean((0, 1)), atol=3)  # a JPEG rounds


def test_it_is_upright_and_has_no_metadata(tmp_path, limits, here):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    exif[0x010E] = "where I live"
    location = save(tmp_path / "a.jpg", encoded(Image.new("RGB", (300, 100)), "JPEG", exif=exif))
    made = here([location], limits)[location].jpeg
    with Image.open(io.BytesIO(made)) as small:
        assert small.height > small.width
        assert not small.getexif()
    assert b"where I live" not in made


def test_of_a_file_cut_short_what_there_is(tmp_path, limits, here):
    whole = jpeg(400, 300)
    location = save(tmp_path / "a.jpg", whole[: len(whole) // 2])
    assert here([location], limits)[location].jpeg.startswith(b"\xff\xd8")


def test_what_has_no_picture_is_left_out(tmp_path, limits, here):
    locations = [
        save(tmp_path / "text.jpg", b"hello"),
        save(tmp_path / "empty.jpg", b""),
        save(tmp_path / "vector.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),
        save(tmp_path / "large.png", encoded(Image.new("L", (2000, 2000)), "PNG")),
        save(tmp_path / "no_model_gets_it", encoded(Image.new("F", (120, 90), 0.5), "TIFF")),
        *(str(tmp_path / "missing.jpg"), str(tmp_path), "/etc/hostname", "http://example.org/a.jpg"),
    ]
    assert here(locations, limits) == {}


def test_noise_stays_within_the_bytes_of_one(tmp_path, limits, here):
    noise = Image.frombytes("RGB", (200, 200), os.urandom(120_000))
    location = save(tmp_path / "noise.png", encoded(noise, "PNG"))
    assert all(len(made.jpeg) <= MAX_BYTES for made in here([location], limits).values())


def test_all_together_stay_within_their_bytes():
    made = {str(n): Thumbnail(bytes(100)) for n in range(10)}
    assert list(thumbnails._within(made, 250)) == ["0", "1"]
