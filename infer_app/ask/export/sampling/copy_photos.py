"""Copy the photos of chosen images into one folder, under names that do not collide."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

from infer_app.ask.export.sampling.choose_images import Chosen
from infer_app.base.atomic_file import replace_file
from infer_app.base.domain import ROW
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.locations import is_local_file, is_remote
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.decode.formats import sniff
from infer_app.predict.images.read.bad_image import BadImage, ImageBytes
from infer_app.predict.images.read.local_files import stat_facts
from infer_app.predict.images.read.read_image import read_image
from infer_app.tables.rows.results import Result

MAX_CHOICES = 10  # each reads the predictions of all days
Choose = Callable[[Callable[[Result], bool]], Chosen]

_MAX_STEM = 50  # characters of up to four bytes: a name has at most 255 bytes
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|\ud800-\udfff]")


def copy_photos(choose: Choose, folder: Path, limits: ReadLimits) -> tuple[Chosen, dict[str, str]]:
    """Return the chosen images with their copies as locations, and by location why a photo is not copied.

    Those are what a run may not read, and a file that has changed since it was predicted. `choose` gets a condition
    that images have to meet, and is asked again without those, and without files that are gone, up to MAX_CHOICES
    times. Raises UsageError if the folder can't be written.
    """
    copies: dict[int, Path] = {}  # by the number of the picture
    not_copied: dict[str, str] = {}

    def may_be_copied(image: Result) -> bool:
        return not not_copied or (image.location not in not_copied and _may_be_there(image.location, limits))

    with os_errors_as(UsageError, f"--copy-to {folder} can't be written", "is it a folder, with space left?"):
        folder.mkdir(parents=True, exist_ok=True)
        before = set(folder.absolute().iterdir())
        for _ in range(MAX_CHOICES):
            chosen, num_not_copied = choose(may_be_copied), len(not_copied)
            for image in (image for _, image in chosen if image.picture not in copies):
                photo = _read_photo(image, limits)
                if isinstance(photo, str):
                    not_copied[image.location] = photo
                else:
                    copies[image.picture] = _copy(photo[1], folder.absolute() / photo[0])
            if len(not_copied) == num_not_copied:
                break
        found = [(day, image, copies[image.picture]) for day, image in chosen if image.picture in copies]
        for path in set(copies.values()) - before - {path for *_, path in found}:
            path.unlink()  # of an image of an earlier choice
    return [(day, replace(image, location=str(path))) for day, image, path in found], not_copied


def _may_be_there(location: str, limits: ReadLimits) -> bool:
    return not is_local_file(location) or stat_facts(location, limits.path_map).size is not None


def _read_photo(image: Result, limits: ReadLimits) -> tuple[str, ImageBytes] | str:
    """Return a photo with the name of its copy, or why it is not copied."""
    try:
        photo = read_image(image.location, limits)
        name = _name(image.location, photo.data)
    except BadImage as error:
        return f"{error.reason} ({error.detail})"
    if image.sha256 not in (None, photo.facts.sha256):
        return "the file has changed since it was predicted"
    return name, photo


def _copy(photo: ImageBytes, path: Path) -> Path:
    """Write a copy and return its path: with a checksum in its name where that of another photo is taken.

    It may be read by no user who may not read the photo, as far as permissions tell.
    """
    if path.exists() and path.read_bytes() != photo.data:
        path = path.with_name(f"{path.stem}-{hashlib.sha256(photo.data).hexdigest()[:8]}{path.suffix}")
    if not path.exists():
        replace_file(path, photo.data, photo.mode & 0o666)
    return path


def _name(location: str, data: bytes) -> str:
    if location.startswith(ROW):
        return f"{_UNSAFE.sub('_', location)[:_MAX_STEM]}.{sniff(data)}"
    path = PurePosixPath(location.partition("?")[0] if is_remote(location) else location)
    stem = _UNSAFE.sub("_", path.stem).lstrip(".")[:_MAX_STEM]
    return f"{stem or 'photo'}{_UNSAFE.sub('_', path.suffix)[:8]}"
