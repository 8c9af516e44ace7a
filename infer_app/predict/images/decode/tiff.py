"""TIFF: open it, and refuse what would not be read correctly."""

from typing import BinaryIO

from PIL import TiffImagePlugin

from infer_app.base.domain import Reason
from infer_app.predict.images.read.bad_image import BadImage

TiffFile = TiffImagePlugin.TiffImageFile

_NEW_SUBFILE_TYPE, _SUB_IFDS, _DNG_VERSION = 254, 330, 50706
_PHOTOMETRIC, _WHITE_IS_ZERO = 262, 0
_PLANAR_CONFIGURATION, _SEPARATE = 284, 2
# Compressions that Pillow doesn't know, as its errors have them.
_COMPRESSIONS = {
    **dict.fromkeys(("33003", "33005", "34712"), "JPEG 2000"),
    **dict.fromkeys(("50002", "52546"), "JPEG XL"),
    "34661": "JBIG",
    "34887": "LERC",
}


def open_tiff(file: BinaryIO) -> TiffFile:
    """Open a TIFF. Raises BadImage for a compression or for samples that Pillow doesn't read."""
    try:
        image = TiffFile(file)
    except SyntaxError as error:
        if str(error) in _COMPRESSIONS:
            raise _unread_compression(_COMPRESSIONS[str(error)]) from error
        if "unknown pixel mode" in str(error):
            raise BadImage(Reason.UNSUPPORTED_FORMAT, _describe_samples(_first_tags(file))) from error
        _check_raw(_first_tags(file))  # of some raw photos even the preview has no size
        raise
    if image.info.get("compression") == "webp":  # Pillow's libtiff is built without it
        raise _unread_compression("WebP")
    return image


def _first_tags(file: BinaryIO) -> TiffImagePlugin.ImageFileDirectory_v2:
    file.seek(0)
    tags = TiffImagePlugin.ImageFileDirectory_v2(file.read(8))
    file.seek(tags.next)
    tags.load(file)
    return tags


def _describe_samples(tags: TiffImagePlugin.ImageFileDirectory_v2) -> str:
    """Return what is said of samples that are not read, with their bits where it is these."""
    bits = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (8,)))
    samples = "samples of a kind that is" if bits in (1, 8, 16, 32) else f"samples of {bits} bits, a number that is"
    return f"channels or {samples} not read; convert it to grey or RGB of 8 or 16 bits"


def check_tiff(image: TiffFile, depth: str) -> None:
    """Raise BadImage for a raw photo, and for planes of which Pillow doesn't read what `depth` needs.

    A raw photo in TIFF's form (DNG, NEF, ARW) has a small preview as its first picture. Of 16 bits per channel in
    separate planes Pillow reads the upper 8 correctly, but for uncompressed ones.
    """
    tags = image.tag_v2
    _check_raw(tags)
    is_separate = tags.get(_PLANAR_CONFIGURATION) == _SEPARATE and tags.get(TiffImagePlugin.SAMPLESPERPIXEL, 1) > 1
    is_deep = max(tags.get(TiffImagePlugin.BITSPERSAMPLE, (1,))) > 8
    if is_separate and is_deep and (depth != "full" or image.info.get("compression") == "raw"):
        detail = "channels of 16 bits in separate planes; save it with interleaved channels"
        raise BadImage(Reason.UNSUPPORTED_FORMAT, detail)


def _check_raw(tags: TiffImagePlugin.ImageFileDirectory_v2) -> None:
    is_preview = tags.get(_NEW_SUBFILE_TYPE, 0) & 1
    if _DNG_VERSION in tags or (is_preview and _SUB_IFDS in tags):
        raise BadImage(Reason.UNSUPPORTED_FORMAT, "a raw photo (DNG, NEF, ARW); its preview is not predicted")


def tile_size(image: TiffFile) -> tuple[int, int]:
    """Return the size of a TIFF's tiles: a tile is decoded whole, however small the picture in it is."""
    width, height = (image.tag_v2.get(tag, 1) for tag in (TiffImagePlugin.TILEWIDTH, TiffImagePlugin.TILELENGTH))
    return int(width), int(height)


def has_white_zero(image: object) -> bool:
    """Return whether 0 is white and the largest sample black, which Pillow inverts for 8 bits and not for 16."""
    return isinstance(image, TiffFile) and image.tag_v2.get(_PHOTOMETRIC) == _WHITE_IS_ZERO


def sample_bits(image: object) -> int:
    """Return of how many bits the samples of a deep image are: 12 in some TIFFs, which Pillow doesn't scale."""
    return min(16, *image.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (16,))) if isinstance(image, TiffFile) else 16


def _unread_compression(name: str) -> BadImage:
    detail = f"a TIFF compressed as {name}; save it uncompressed or with LZW or Deflate"
    return BadImage(Reason.UNSUPPORTED_FORMAT, detail)
