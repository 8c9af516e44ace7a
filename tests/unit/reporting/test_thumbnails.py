import io
import os
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.read.local_files import ReadLimits
from infer_app.recipe import Recipe
from infer_app.reporting import thumbnails
from infer_app.reporting.thumbnails import MAX_BYTES, SIZE, Thumbnail, ThumbnailLimits, thumbnails_of
from tests.support.photos import jpeg


@pytest.fixture
def limits(tmp_path):
    return ThumbnailLimits(ReadLimits((tmp_path,), max_bytes=10_000_000), max_pixels=1_000_000)


@pytest.fixture
def here(monkeypatch):
    """Thumbnails in this process, what it sets for all pictures undone."""
    monkeypatch.setattr(thumbnails.ImageFile, "LOAD_TRUNCATED_IMAGES", False)
    monkeypatch.setattr(thumbnails.Image, "MAX_IMAGE_PIXELS", thumbnails.Image.MAX_IMAGE_PIXELS)
    return thumbnails_of


def save(path, data):
    path.write_bytes(data)
    return str(path)


def encoded(image, kind, **more):
    buffer = io.BytesIO()
    image.save(buffer, kind, **more)
    return buffer.getvalue()


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
    read = decode_image((tmp_path / "a").read_bytes(), Recipe("stretch", 16), DecodeLimits(limits.max_pixels)).rgb
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
