"""Decode an image to RGB pixels or raise BadImage: no other exception, and no filler for missing pixels.

All formats follow one rule: colours as by Pillow's convert("RGB") (alpha is dropped), 16 bits scaled to 8 as the recipe
has it, the first frame of an animation, EXIF orientation applied unless the recipe ignores it. (The orientation of
TIFF, HEIC and AVIF is part of the format and always applied.) docs/pictures.md has every case.
"""

import warnings
from collections.abc import Callable
from functools import cache
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np
import turbojpeg
from PIL import (
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
    features,
)
from PIL import __version__ as pillow_version

from infer_app.artifact.recipe import MAX_SAMPLE, Recipe
from infer_app.base.domain import Reason
from infer_app.base.machine import allocatable
from infer_app.predict.images.decode.depth import DIM, has_deep_colors, load_deep_colors, to_8_bits
from infer_app.predict.images.decode.formats import check_boxes_end, check_png_end, sniff, webp_size, without_metadata
from infer_app.predict.images.decode.heif import heif_decoder_names, open_avif, open_heic
from infer_app.predict.images.decode.jpeg_structure import (
    JpegHeader,
    check_scans,
    has_jpeg_end,
    parse_jpeg_header,
    without_samsung_trailer,
)
from infer_app.predict.images.decode.libjpeg_turbo import JpegRefused, decode_strictly, load_turbo
from infer_app.predict.images.decode.tiff import TiffFile, check_tiff, has_white_zero, open_tiff, sample_bits, tile_size
from infer_app.predict.images.read.bad_image import BadImage, reason_of
from infer_app.predict.images.transform.geometry import Picture, Pixels, scale_for

MAX_SCANS = 500  # of a JPEG, as in libjpeg-turbo; each costs a pass over the whole image

SILENT_BYTES = 16  # for each pixel, that the decoders of WebP, HEIC and AVIF take at most
COEFFICIENT_BYTES = 8  # for each pixel, that a JPEG of several scans takes at most in Pillow
NO_STRIP_MEMORY = "decoder error -9"  # what Pillow says of a TIFF: memory is short for a strip, or its size is damaged

# Opened by their class and not by Image.open, so that no file is opened by a plugin for another format.
_PLUGINS: dict[str, Callable[[BinaryIO], ImageFile.ImageFile]] = {
    "jpeg": JpegImagePlugin.JpegImageFile,
    "png": PngImagePlugin.PngImageFile,
    "webp": WebPImagePlugin.WebPImageFile,
    "bmp": BmpImagePlugin.BmpImageFile,
    "gif": GifImagePlugin.GifImageFile,
    "tiff": open_tiff,
    "heic": open_heic,
    "avif": open_avif,
}


def decode_image(data: bytes, recipe: Recipe, max_pixels: int) -> Picture:
    """Decode an image to an upright picture. Raises BadImage, and nothing else, whatever the bytes.

    The picture is whole, unless the recipe's `decode` is scaled: then a JPEG is shrunk as far as its resize allows.
    """
    ImageFile.LOAD_TRUNCATED_IMAGES = False  # which other code may set, such as that of a model
    try:
        return _decode(data, recipe, max_pixels)
    except BadImage:
        raise
    except MemoryError as error:
        raise BadImage(Reason.OUT_OF_MEMORY, "no memory for the pixels") from error
    except Exception as error:  # decoders raise whatever the damage leads to: KeyError, struct.error, IndexError, …
        is_short = str(error) == NO_STRIP_MEMORY and allocatable() is not None
        reason = Reason.OUT_OF_MEMORY if is_short else reason_of(str(error))
        advice = "; convert it to PNG" if reason is Reason.UNSUPPORTED_FORMAT else ""
        raise BadImage(reason, f"{type(error).__name__}: {error}".strip()[:300] + advice) from error


@cache
def decoder_name() -> str:
    """Return the decoders and their versions, for rejections: decoders disagree about which files are broken."""
    turbo = [f"libjpeg-turbo (PyTurboJPEG {turbojpeg.__version__})"] if has_turbo() else []
    pillow = f"Pillow {pillow_version} (libjpeg-turbo {features.version('libjpeg_turbo') or 'unknown'})"
    return ", ".join([*turbo, pillow, *heif_decoder_names()])


def has_turbo() -> bool:
    """Return whether libjpeg-turbo is installed; without it Pillow decodes JPEGs, more slowly and less strictly."""
    return load_turbo() is not None


def open_image(data: bytes, file_format: str | None = None) -> ImageFile.ImageFile:
    """Open an image, of which no pixel is decoded yet. Raises BadImage, or what Pillow raises for damaged data."""
    return open_file(BytesIO(data), file_format or sniff(data))


def open_file(file: BinaryIO, file_format: str) -> ImageFile.ImageFile:
    """Open a file whose format is known. Raises what `open_image` raises."""
    # Pillow's own pixel limit warns or raises at sizes that the user may have allowed. The only limit is
    # `max_pixels`, width times height, which is compared with the header before any pixel is decoded.
    Image.MAX_IMAGE_PIXELS = None  # for each file, since other code may set it
    return _PLUGINS[file_format](file)


def _decode(data: bytes, recipe: Recipe, max_pixels: int) -> Picture:
    if not data:
        raise BadImage(Reason.EMPTY, "0 bytes")
    file_format = sniff(data)
    return _DECODERS.get(file_format, _decode_with_pillow)(data, file_format, recipe, max_pixels)


def _decode_webp(data: bytes, file_format: str, recipe: Recipe, max_pixels: int) -> Picture:
    _check_pixels(*webp_size(data), max_pixels)
    _check_memory(*webp_size(data))
    return _decode_with_pillow(data, file_format, recipe, max_pixels)


def _decode_png(data: bytes, file_format: str, recipe: Recipe, max_pixels: int) -> Picture:
    """Decode a PNG. Pillow refuses one for metadata that are long or damaged: it is tried again without them."""
    check_png_end(data)
    try:
        return _decode_with_pillow(data, file_format, recipe, max_pixels)
    except (BadImage, MemoryError):
        raise
    except Exception:  # whatever the damage leads to
        return _decode_with_pillow(without_metadata(data), file_format, recipe, max_pixels)


def _check_pixels(width: int, height: int, max_pixels: int) -> None:
    if not width * height:
        raise BadImage(Reason.CORRUPT, f"{width}x{height} pixels")
    if width * height > max_pixels:
        raise BadImage(Reason.TOO_MANY_PIXELS, f"{width}x{height} pixels, at most {max_pixels:,} are decoded")


def _check_memory(width: int, height: int, bytes_per_pixel: int = SILENT_BYTES) -> None:
    """Raise BadImage where memory is short for a decoder that would call the file damaged then."""
    left = allocatable()
    if left is not None and width * height * bytes_per_pixel > left:
        raise BadImage(Reason.OUT_OF_MEMORY, f"{width}x{height} pixels, and {left >> 20:,} MiB are left")


def _decode_jpeg(data: bytes, file_format: str, recipe: Recipe, max_pixels: int) -> Picture:
    try:
        return _decode_whole_jpeg(data, recipe, max_pixels)
    except BadImage:
        if (picture := without_samsung_trailer(data)) is None:
            raise
        return _decode_whole_jpeg(picture, recipe, max_pixels)


def _decode_whole_jpeg(data: bytes, recipe: Recipe, max_pixels: int) -> Picture:
    header = parse_jpeg_header(data)
    _check_pixels(header.width, header.height, max_pixels)
    if not header.is_one_sequential_scan:
        check_scans(data, header, MAX_SCANS)
    orientation = 1 if recipe.exif == "ignore" else header.orientation
    size = (header.width, header.height) if orientation < 5 else (header.height, header.width)
    scale = scale_for(*size, recipe, is_turned=orientation > 1)
    rgb = _jpeg_pixels(data, header, recipe, max_pixels, scale)
    return Picture(rgb, *size, scale)


def _jpeg_pixels(data: bytes, header: JpegHeader, recipe: Recipe, max_pixels: int, scale: int) -> Pixels:
    """Decode with libjpeg-turbo, and with Pillow what libjpeg-turbo's interface does not support.

    A JPEG that ends early is refused unless only its end marker is missing. libjpeg itself would fill it up with grey.
    """
    if (turbo := load_turbo()) is not None:
        try:
            rgb = decode_strictly(turbo, data, header, scale)
            return rgb if recipe.exif == "ignore" else _upright(rgb, header.orientation)
        except JpegRefused as refused:
            if not refused.is_beyond_turbo:
                raise
    # Pillow detects a truncated file by its structure, but no damage inside a scan, and drops libjpeg's warnings. So a
    # file that lacks only its end marker is refused as well.
    if not has_jpeg_end(data):
        raise BadImage(Reason.TRUNCATED, "ends without an end marker")
    try:
        return _decode_with_pillow(data, "jpeg", recipe, max_pixels, scale).rgb
    except OSError:  # for a lack of memory libjpeg and Pillow have no error of their own here
        _check_memory(header.width, header.height, COEFFICIENT_BYTES)
        raise


def _decode_with_pillow(data: bytes, file_format: str, recipe: Recipe, max_pixels: int, scale: int = 1) -> Picture:
    # What HEIC and AVIF say of these is part of the format, whatever the recipe: they are upright, and of 8 bits.
    is_boxed = file_format in ("heic", "avif")
    exif, depth = ("apply", "full") if is_boxed else (recipe.exif, recipe.depth)
    if is_boxed:
        check_boxes_end(data)
    # Warning filters belong to the process; they can be changed because a process decodes in one thread.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_image(data, file_format) as image:
            _check_pixels(*image.size, max_pixels)
            if is_boxed:
                _check_memory(*image.size)
            if isinstance(image, TiffFile):
                check_tiff(image, depth)
                _check_pixels(*tile_size(image), max_pixels)
            if file_format == "jpeg":
                image.decodermaxblock = len(data)  # an arithmetic decoder can't stop in the middle of a file
            if scale > 1:
                image.draft(image.mode, (image.width // scale, image.height // scale))
            is_color = has_deep_colors(image)
            is_deep = not is_boxed and (is_color or image.mode.startswith("I"))
            if is_color and depth != "full":
                with open_image(data, file_format) as again:
                    rgb = to_8_bits(load_deep_colors(image, again), depth)
                rgb = _oriented(np.repeat(rgb, 3 // rgb.shape[2], axis=2), image, exif)
            else:
                rgb = rgb_of(image, exif, depth)
    _check_pixels(rgb.shape[1], rgb.shape[0], max_pixels)
    return Picture.whole(rgb, is_dim=is_deep and depth == "full" and int(rgb.max()) < DIM)


_DECODERS = {"jpeg": _decode_jpeg, "png": _decode_png, "webp": _decode_webp}  # of other formats Pillow alone


def rgb_of(image: Image.Image, exif: str = "apply", depth: str = "full") -> Pixels:
    """Load an opened image as RGB pixels, by the rule above. Raises BadImage for modes without a fixed range."""
    image.load()
    return _oriented(_rgb_of(image, depth), image, exif)


def _oriented(rgb: Pixels, image: Image.Image, exif: str) -> Pixels:
    return rgb if exif == "ignore" else _upright(rgb, _orientation_of(image))


def _rgb_of(image: Image.Image, depth: str) -> Pixels:
    if image.mode.startswith("I"):
        return _rgb_of_deep_grey(np.asarray(image), depth, sample_bits(image), has_white_zero(image))
    if image.mode == "F":
        detail = "floating-point pixels have no fixed range; convert it to 8 or 16 bits"
        raise BadImage(Reason.UNSUPPORTED_FORMAT, detail)
    try:
        return np.array(image.convert("RGB"))
    except ValueError as error:
        raise BadImage(Reason.UNSUPPORTED_FORMAT, str(error)) from error


def _rgb_of_deep_grey(grey: np.ndarray[Any, Any], depth: str, bits: int, is_inverted: bool) -> Pixels:
    """Scale `bits` to 8, because Pillow's convert would clip everything above 255 to white; a window is of `bits`."""
    if grey.dtype.itemsize > 2 and grey.size and (grey.min() < 0 or grey.max() > MAX_SAMPLE):
        raise BadImage(Reason.UNSUPPORTED_FORMAT, "samples below 0 or above 65,535; convert it to 16 bits")
    grey = (1 << bits) - 1 - grey if is_inverted else grey
    grey = grey << 16 - bits if depth == "full" else grey
    return np.repeat(to_8_bits(grey, depth)[:, :, None], 3, axis=2)


def _orientation_of(image: Image.Image) -> int:
    """Return the orientation as Pillow's exif_transpose finds it; 1, which is upright, for damaged metadata."""
    try:
        orientation = image.getexif().get(0x0112, 1)
    except Exception:  # Pillow raises whatever the damage leads to
        return 1
    return orientation if isinstance(orientation, int) else 1


def _upright(rgb: Pixels, orientation: int) -> Pixels:
    """Undo an EXIF orientation: 2 and 4 are mirrored, 3 is turned by 180 degrees, 5 to 8 have rows as columns."""
    if orientation not in range(2, 9):
        return rgb
    if orientation >= 5:
        rgb = rgb.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        rgb = rgb[:, ::-1]
    if orientation in (3, 4, 7, 8):
        rgb = rgb[::-1]
    return np.ascontiguousarray(rgb)
