"""Photos for the benchmarks: from a folder, repeated under new names until there are enough."""

from __future__ import annotations

import importlib.util
import os
import shutil
from itertools import cycle, islice
from pathlib import Path

from PIL import Image

DATA_BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"  # a folder beside the checkout may contain photos
SUFFIXES = (".jpg", ".jpeg")
WHEEL_PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
WIDTH, HEIGHT = 500, 375  # the usual size of ImageNet's photos
TILES_ACROSS = 8  # of a mosaic: 4000×3000
NUM_MOSAICS = 50  # different ones


def find_photos() -> Path | None:
    """Return $TEST_DATA/photos or the photos of a data folder beside the checkout; None if neither exists."""
    candidates = [Path(os.environ["TEST_DATA"])] if "TEST_DATA" in os.environ else []
    folders = [folder / "photos" for folder in (*candidates, DATA_BESIDE)]
    return next((folder for folder in folders if folder.is_dir()), None)


def collect_photos(source: Path | None, folder: Path, count: int) -> None:
    """Put `count` files into `folder`, each with a name of its own."""
    folder.mkdir()
    originals = _jpegs_of(source) if source else _wheel_photos(folder.parent / "originals")
    for number, original in enumerate(islice(cycle(originals), count)):
        _link_or_copy(original, folder / f"{number:06}-{original.stem}.jpg")


def collect_large_photos(source: Path | None, folder: Path, count: int) -> None:
    """Put `count` photos of 12 megapixels into `folder`: mosaics, so that they have the detail of a camera's photo."""
    small = folder.parent / "small"
    collect_photos(source, small, NUM_MOSAICS * TILES_ACROSS)
    tiles = cycle(sorted(small.iterdir()))
    mosaics = folder.parent / "mosaics"
    mosaics.mkdir()
    for number in range(min(count, NUM_MOSAICS)):
        mosaic = Image.new("RGB", (WIDTH * TILES_ACROSS, HEIGHT * TILES_ACROSS))
        for tile, path in enumerate(islice(tiles, TILES_ACROSS**2)):
            with Image.open(path) as image:
                photo = image.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
            mosaic.paste(photo, (tile % TILES_ACROSS * WIDTH, tile // TILES_ACROSS * HEIGHT))
        mosaic.save(mosaics / f"mosaic{number:03}.jpg", quality=90)
    collect_photos(mosaics, folder, count)


def _jpegs_of(source: Path) -> list[Path]:
    found = sorted(path for path in source.iterdir() if path.suffix.lower() in SUFFIXES)
    if not found:
        raise SystemExit(f"{source}: no JPEG files")
    return found


def _wheel_photos(folder: Path) -> list[Path]:
    """Return the photos that scikit-image ships, as JPEGs of the usual size."""
    spec = importlib.util.find_spec("skimage")
    if spec is None or spec.origin is None:
        raise SystemExit("no photos: give a folder with --photos, or pip install scikit-image, which ships some")
    folder.mkdir()
    for name in WHEEL_PHOTOS:
        with Image.open(Path(spec.origin).parent / "data" / name) as image:
            photo = image.convert("RGB").resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
        photo.save(folder / f"{Path(name).stem}.jpg", quality=90)
    return sorted(folder.iterdir())


def _link_or_copy(original: Path, copy: Path) -> None:
    """Make a hard link, or a copy if the file system or the owner does not allow one."""
    try:
        copy.hardlink_to(original)
    except OSError:
        shutil.copyfile(original, copy)
