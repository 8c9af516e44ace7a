"""HEIC, AVIF and 16 bits through the real commands: missing decoders, damaged files, dark pictures."""

import io
import json
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from tests.support.heif_files import avif, heic, smooth
from tests.support.projects import DATE, REJECTED, build_model, install, without
from tests.support.rasters import png_of_16_bits

INSTALL = install("heic")
DARK = "images use at most 12 of 16 bits: nearly black as read; build the model with --set depth=window:0,4095"
pytestmark = pytest.mark.slow


def test_images_without_a_decoder_are_pending_again_once_it_is_installed(project, tmp_path):
    without_decoders = without(tmp_path / "without", "pillow_heif", "_pillow_heif", "PIL._avif")
    project.add_photos(20)
    (project.photos / "a.heic").write_bytes(heic(smooth()))
    (project.photos / "b.avif").write_bytes(avif(smooth()))
    project.add("photos")
    report = project.run_day("--report", **without_decoders)
    assert report["reasons"] == {"avif_decoder_missing": 1, "heic_decoder_missing": 1}
    assert report["day"] == {"eligible": 22, "predicted": 20, "rejected": 2, "pending": 0}
    page = json.loads((project.folder / f"reports/{DATE}.json").read_text())
    assert any(INSTALL in text for text in texts(page))
    assert all(
        detail.endswith("no decoder for it is installed")
        for (detail,) in project.rows("SELECT detail FROM infer_rejections")
    )
    found = project.infer_json("doctor", **without_decoders)["findings"]
    told = "AVIF and HEIC images are rejected until their decoder is installed"
    assert [one["fix"] for one in found if one["found"] == told] == [INSTALL]
    assert project.run_day(**without_decoders)["selected"] == 0  # they are not tried in vain
    assert not any(one["found"] == told for one in project.infer_json("doctor")["findings"])
    report = project.run_day()
    assert (report["selected"], report["day"]["predicted"], report["reasons"]) == (2, 22, {})


def texts(told: dict) -> list[str]:
    return [notice["text"] for notice in told["notices"]]


def chunk(kind: bytes, payload: bytes, wrong: int = 0) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload) ^ wrong)


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def sound_pictures() -> Iterator[tuple[str, bytes]]:
    """Files of one picture with metadata, or bytes that every decoder skips, that are long, odd or damaged."""
    picture = smooth()
    png, jpeg, gif = (encoded(picture, kind) for kind in ("PNG", "JPEG", "GIF"))
    long = zlib.compress(bytes(3_000_000))
    chunks = [
        *((kind, b"Comment\0\0" + long) for kind in (b"zTXt", b"iCCP")),
        (b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + long),
        *((kind, b"odd") for kind in (b"pHYs", b"gAMA", b"sRGB", b"cHRM", b"iCCP", b"tIME", b"acTL", b"tRNS", b"eXIf")),
    ]
    for number, one in enumerate([*(chunk(*one) for one in chunks), *(chunk(*one, wrong=1) for one in chunks)]):
        yield f"before{number}.png", png[:33] + one + png[33:]
        yield f"after{number}.png", png[:-12] + one + png[-12:]
    segments = [
        (0xE1, b"Exif\0\0odd"),
        (0xE2, b"MPF\0odd"),
        (0xE2, b"ICC_PROFILE\0\1\5odd"),
        (0xED, b"Photoshop 3.0\0"),
    ]
    for number, (marker, payload) in enumerate(
        [*segments, (0xE0, b"J"), (0xFE, bytes(60_000)), (0xE0, b"JFIF\0\x09\x09")]
    ):
        segment = struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload
        yield f"{number}.jpg", jpeg[:2] + segment + jpeg[2:]
    yield "fill.jpg", jpeg[:2] + b"\xff" * 50 + jpeg[2:-2] + b"\xff\xff\xff\xd9"
    yield "comment.gif", gif[:-1] + b"\x21\xfe\x05hello\0" + gif[-1:]
    for name, data in (("png", png), ("jpg", jpeg), ("gif", gif), ("bmp", encoded(picture, "BMP"))):
        yield f"trailing.{name}", data + b"more" * 500
    yield "size.bmp", encoded(picture, "BMP")[:2] + bytes(4) + encoded(picture, "BMP")[6:]
    webp = encoded(picture, "WEBP", exif=b"Exif\0\0odd", xmp=b"odd")
    yield "odd.webp", webp
    yield (
        "unknown.webp",
        b"RIFF" + struct.pack("<I", len(webp) + 4) + webp[8:] + b"JUNK" + struct.pack("<I", 3) + b"odd\0",
    )
    yield "tags.tiff", encoded(picture, "TIFF", tiffinfo={65000: "odd", 34675: b"odd", 700: b"odd", 296: 9})


def test_a_sound_picture_is_not_called_corrupt_for_its_metadata_or_for_bytes_that_are_skipped(project):
    pictures = dict(sound_pictures())
    png = encoded(smooth(), "PNG")
    at = png.index(b"IDAT") + 30
    damaged = {"a.png": png[:at] + bytes([png[at] ^ 9]) + png[at + 1 :], "b.png": png[: len(png) // 2]}
    for name, data in (pictures | damaged).items():
        (project.photos / name).write_bytes(data)
    project.add("photos")
    project.run_day("--max-rejected", "90%")
    rejected = project.rows(f"SELECT location, detail FROM {REJECTED} ORDER BY 1")
    assert [location.rpartition("/")[2] for location, _ in rejected] == [*damaged], rejected
    assert len(project.rows("SELECT 1 FROM infer_predictions")) == len(pictures)


def test_the_second_file_that_macos_keeps_beside_a_photo_is_named(project):
    project.add_photos(20)
    (project.photos / "copied.jpg").write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(4000))
    project.add("photos")
    assert project.run_day()["predicted"] == 20
    [(detail,)] = project.rows("SELECT detail FROM infer_rejections")
    assert "macOS" in detail


def packed_tiff(bits: int) -> bytes:
    """A grey TIFF of 48 x 32 samples of so many bits, without gaps between them."""
    row = "".join(format(v * ((1 << bits) - 1) // 255, f"0{bits}b") for v in range(60, 252, 4))
    data = int(row, 2).to_bytes(len(row) // 8, "big") * 32
    tags = {256: 48, 257: 32, 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: 32, 279: len(data)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<I", 8 + len(data)) + data + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_a_tiff_that_states_12_bits_is_as_bright_as_one_of_8_and_other_numbers_of_bits_are_refused(project):
    project.add_photos(20)
    for bits in (8, 10, 12, 14):
        (project.photos / f"{bits}.tif").write_bytes(packed_tiff(bits))
    project.add("photos")
    report = project.run_day()
    assert (report["reasons"], texts(report)) == ({"unsupported_format": 2}, [])
    [eight, twelve] = project.rows(
        "SELECT output FROM infer_current_predictions WHERE location LIKE '%.tif' ORDER BY location"
    )
    assert eight == twelve
    told = project.rows("SELECT detail FROM infer_rejections ORDER BY picture")
    assert ["samples of 10 bits" in told[0][0], "samples of 14 bits" in told[1][0]] == [True, True]


def test_nearly_black_images_are_told_in_the_output_the_json_and_the_report(project):
    project.add_photos(5)
    for i, most in enumerate((4095, 4095, 65535)):
        samples = np.linspace(0, most, 30 * 40 * 3).astype(np.uint16).reshape(30, 40, 3)
        (project.photos / f"deep-{i}.png").write_bytes(png_of_16_bits(samples))
    Image.fromarray(samples[:, :, 0] // 16).save(project.photos / "deep.tif")
    project.add("photos")
    report = project.run_day("--report")
    assert (report["nearly_black"], texts(report)) == (3, [f"3 {DARK}"])
    page = json.loads((project.folder / f"reports/{DATE}.json").read_text())
    assert f"3 {DARK}" in texts(page)
    assert f"3 {DARK}" in (project.folder / f"reports/{DATE}.html").read_text()

    (project.photos / "late.png").write_bytes((project.photos / "deep-0.png").read_bytes())
    project.add("photos")
    told = project.infer("run", "--date", DATE, "--lookback", "0", "--report", "--quiet")
    assert told == f"attention: 1 {DARK}\n".replace("images use", "image uses")
    assert f"4 {DARK}" in (project.folder / f"reports/{DATE}.html").read_text()


def test_a_model_of_a_window_reads_them_and_has_nothing_to_tell(project, built_models):
    recipe = ("--recipe", "stretch", "--size", "16", "--set", "depth=window:0,4095")
    build_model(project.folder, str(built_models.parent / "colors.ts"), "windowed", *recipe)
    samples = np.zeros((30, 40, 3), np.uint16)
    samples[:, :, 2] = 4095
    (project.photos / "blue.png").write_bytes(png_of_16_bits(samples))
    project.add("photos")
    report = project.run_day("--model", "windowed")
    assert (report["nearly_black"], texts(report), report["day"]["predicted"]) == (0, [], 1)
    ((label, score),) = project.rows("SELECT label, score FROM infer_predictions")
    assert project.run_day("--model", "colors")["nearly_black"] == 1
    ((as_read,),) = project.rows("SELECT score FROM infer_predictions ORDER BY score LIMIT 1")
    assert (label, as_read < score) == ("blue", True)
