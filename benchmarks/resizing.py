"""Measure how far resized pixels are from those of Pillow and of the libraries: by torch's resize and by ours.

A run resized by torch until cykooz_resizer replaced it. Pictures are photos brought to random sizes, and noise of full
contrast, on which resizers differ most.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from math import ceil
from pathlib import Path
from unittest.mock import patch

import numpy as np
import timm
import torch
import torchvision
import transformers
from machine import describe_machine
from photos import find_photos
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.artifact.recipe import Recipe
from infer_app.predict.images.transform import to_pixels
from infer_app.predict.images.transform.geometry import Geometry, Picture
from infer_app.predict.images.transform.resize import pillow_resize, starts_horizontally

Reference = Callable[[Picture], np.ndarray]
MARGIN = 1e-4  # of a pixel, so that rounding down loses none
SHORTEST, LONGEST = 40, 1600  # pixels of a side
MEAN, STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
HF = {"do_normalize": False, "do_rescale": False}
CROP = partial(Recipe, "resize-crop", size=224, resize=256)


def main() -> None:
    flags = read_flags()
    print(f"| {flags.sizes} sizes | compared with | torch: largest, mean | ours: largest, mean | ours and torch |")
    print("|---|---|---:|---:|---:|")
    for recipe, name, reference, scale in comparisons():
        for kind, make in {"photos": partial(photo, find_photos()), "noise": noise}.items():
            pictures = list(random_pictures(flags.sizes, make, scale))
            print(f"| {describe(recipe, scale)}, {kind} | {name} | {row(recipe, reference, pictures)} |", flush=True)
    machine = describe_machine()
    print(f"\n{machine['processor']}, torch {machine['torch']}, torchvision {torchvision.__version__}, timm", end=" ")
    print(f"{timm.__version__}, transformers {transformers.__version__}; {date.today().isoformat()}")


def comparisons() -> Iterator[tuple[Recipe, str, Reference, int]]:
    """Yield a recipe, what it is compared with, and how many times smaller the pictures were decoded."""
    bicubic, bilinear = CROP(), CROP(interpolation="bilinear")
    stretch, squash = (Recipe("stretch", 224, interpolation=name) for name in ("bilinear", "bicubic"))
    square, letterbox = Recipe("crop-resize", 224, crop=0.875), Recipe("letterbox", 640, interpolation="bilinear")
    for recipe in (bicubic, bilinear, stretch, squash, square, letterbox, Recipe("stretch", "320x240")):
        yield recipe, "Pillow", partial(to_pixels.reference_transform, recipe=recipe), 1
    for recipe in (bicubic, square):
        yield recipe, "Pillow", partial(to_pixels.reference_transform, recipe=recipe), 2
    weights = (
        torchvision.models.ResNet50_Weights.IMAGENET1K_V1,
        torchvision.models.EfficientNet_B0_Weights.IMAGENET1K_V1,
    )
    for recipe, one in zip((bilinear, bicubic), weights, strict=True):
        yield recipe, "torchvision", partial(of_torchvision, one.transforms()), 1
    for recipe, options in ((bicubic, {"crop_pct": 0.875}), (squash, {"crop_pct": 1.0, "crop_mode": "squash"})):
        transform = timm.data.create_transform((3, 224, 224), interpolation="bicubic", mean=MEAN, std=STD, **options)
        yield recipe, "timm", partial(of_tensor, transform), 1
    size = {"height": 224, "width": 224}
    vit, bit = transformers.ViTImageProcessor(**HF), transformers.BitImageProcessor(**HF, size={"shortest_edge": 256})
    yield stretch, "transformers", partial(of_transformers, vit), 1
    yield CROP(crop_rounding="down"), "transformers", partial(of_transformers, bit, crop_size=size), 1


def of_torchvision(preset: Callable[[Image.Image], torch.Tensor], picture: Picture) -> np.ndarray:
    mean, std = (torch.tensor(getattr(preset, name))[:, None, None] for name in ("mean", "std"))
    return of_tensor(lambda image: preset(image) * std + mean, picture)


def of_tensor(transform: Callable[[Image.Image], torch.Tensor], picture: Picture) -> np.ndarray:
    """Return the levels of what a transform gives between 0 and 1, channels first."""
    return (transform(Image.fromarray(picture.rgb)) * 255).round().permute(1, 2, 0).numpy()


def of_transformers(
    processor: Callable[..., dict[str, list[np.ndarray]]], picture: Picture, **options: object
) -> np.ndarray:
    (pixels,) = processor(Image.fromarray(picture.rgb), return_tensors="np", **options)["pixel_values"]
    return pixels.transpose(1, 2, 0)


def row(recipe: Recipe, reference: Reference, pictures: list[Picture]) -> str:
    """Return the figures of both resizers: the largest difference of a picture, the worst and the mean of all."""
    ours = [to_pixels.transform(picture, recipe) for picture in pictures]
    with patch.object(to_pixels, "resize", torch_resize):
        former = [to_pixels.transform(picture, recipe) for picture in pictures]
    wanted = [reference(picture) for picture in pictures]
    cells = []
    for found in (former, ours):
        differences = [np.abs(one - other.astype(float)).max() for one, other in zip(wanted, found, strict=True)]
        cells.append(f"{max(differences):.0f}, {np.mean(differences):.2f}")
    most = max(int(np.abs(one - other.astype(int)).max()) for one, other in zip(former, ours, strict=True))
    return " | ".join([*cells, f"differ by {most}" if most else "same bytes"])


def torch_resize(rgb: np.ndarray, geometry: Geometry, interpolation: str) -> np.ndarray:
    """Resize as runs did by torch; it takes a size, or factors if the source ends inside a pixel."""
    source, (width, height), _ = geometry
    if rgb.shape[:2] == (height, width):
        return rgb
    if interpolation == "bicubic" and not starts_horizontally(rgb.shape[1], rgb.shape[0], (width, height)):
        return pillow_resize(rgb, geometry, interpolation)
    size, factors = (height, width), None
    if rgb.shape[:2] != (source.height, source.width):
        size, factors = None, [(height + MARGIN) / source.height, (width + MARGIN) / source.width]
    pixels = torch.from_numpy(rgb).unsqueeze(0).permute(0, 3, 1, 2)
    resized = torch.nn.functional.interpolate(pixels, size, factors, mode=interpolation, antialias=True)
    return resized.squeeze(0).permute(1, 2, 0).numpy()[:height, :width]


def random_pictures(count: int, make: Callable[[int, int, int], np.ndarray], scale: int) -> Iterator[Picture]:
    """Yield pictures of random sizes, the same ones each time; `make` takes a width, a height and a number."""
    random = np.random.default_rng(0)
    for number, (width, height) in enumerate(
        np.exp(random.uniform(*np.log((SHORTEST, LONGEST)), (count, 2))).astype(int)
    ):
        yield Picture(make(ceil(width / scale), ceil(height / scale), number), int(width), int(height), scale)


def photo(folder: Path | None, width: int, height: int, number: int) -> np.ndarray:
    files = sorted(folder.glob("*.[jJ]*")) if folder else []
    if not files:
        raise SystemExit("no photos: name a folder that has a folder `photos` with TEST_DATA")
    with Image.open(files[number % len(files)]) as image:
        return np.array(image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC))


def noise(width: int, height: int, number: int) -> np.ndarray:
    return np.random.default_rng(number).choice([0, 255], (height, width, 3)).astype(np.uint8)


def describe(recipe: Recipe, scale: int) -> str:
    steps = [recipe.kind, f"{recipe.size}", recipe.interpolation, *([f"decoded 1/{scale}"] if scale > 1 else [])]
    return " ".join(steps)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, default=200, help="random sizes of pictures")
    return parser.parse_args()


if __name__ == "__main__":
    main()
