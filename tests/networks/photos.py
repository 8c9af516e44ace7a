"""The photos on which programs are compared: real ones, and made-up ones of odd shapes and formats."""

from pathlib import Path

from PIL import Image

from tests.support.photos import DATA

SHAPES = ((2000, 300), (300, 1600), (40, 40), (64, 48), (1201, 801), (333, 777))  # width and height
ROTATED = 0x0112  # EXIF's orientation


def gather_photos(folder: Path) -> Path:
    """Fill a new folder with the real photos, and some of them in other shapes, in grey, turned by EXIF and as PNG.

    Raises FileNotFoundError where the real photos are absent: made-up pictures hold no objects.
    """
    if not (DATA / "photos").is_dir():
        raise FileNotFoundError(f"{DATA / 'photos'}: set TEST_DATA to a folder with photos/")
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    real = sorted((DATA / "photos").iterdir())
    for path in real:
        (folder / f"{path.stem}.jpg").symlink_to(path)
    for number, shape in enumerate(SHAPES):
        with Image.open(real[number * 7]) as photo:
            photo.convert("RGB").resize(shape).save(folder / f"shape-{shape[0]}x{shape[1]}.jpg", quality=95)
    with Image.open(real[50]) as photo:
        photo.convert("L").save(folder / "grey.jpg", quality=95)
        photo.convert("RGB").save(folder / "format.png")
        exif = Image.Exif()
        exif[ROTATED] = 6
        photo.convert("RGB").save(folder / "rotated.jpg", quality=95, exif=exif)
    return folder
