"""The arguments of a build: what goes together, and what of the user's own is stored with the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from infer_app.artifact.artifact import Preprocess, check_name, load_function
from infer_app.artifact.manifest import CROP_FILE, HEAD_FILE, LABELS_FILE, PREPROCESS_FILE, format_labels, parse_labels
from infer_app.artifact.recipe import CropRule, Recipe
from infer_app.artifact.specs import WITH_LABELS, CropSpec, InputSpec, OutputSpec, floats3
from infer_app.base.errors import ModelError, UsageError
from infer_app.build.sources.callables import resolve_callable, standalone_code
from infer_app.predict.detection.heads import OwnHead
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.crop import cut_out
from infer_app.predict.images.transform.geometry import Picture


@dataclass(frozen=True)
class BuildRequest:
    """The arguments of `infer model build`."""

    source: str  # a file of TorchScript, ONNX or OpenVINO, a folder, timm:NAME, or package.module:function
    name: str
    recipe: Recipe
    weights: Path | None = None  # for a callable or a library's network: a state dict, or .safetensors
    labels: Path | None = None
    preprocess: str | None = None  # package.module:function, of a custom recipe
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)  # 0-1 scale
    std: tuple[float, float, float] = (1.0, 1.0, 1.0)
    input: str = "float-nchw"
    output: OutputSpec = field(default_factory=OutputSpec)
    golden: Path | None = None  # a folder of images
    label_names: tuple[str, ...] = ()  # without a file of labels
    output_name: str | None = None  # of a network's file
    crop: CropSpec | None = None  # of a second network

    @property
    def input_spec(self) -> InputSpec:
        return InputSpec(self.input, floats3(self.mean), floats3(self.std))

    def check(self) -> None:
        """Raise UsageError for arguments that don't go together."""
        check_name(self.name)
        if (self.recipe.kind == "custom") != (self.preprocess is not None):
            raise UsageError("--preprocess and the recipe custom belong together", "give both, or only another recipe")
        self.recipe.check()
        if self.labels is not None and self.output.kind not in WITH_LABELS:
            kinds = " and ".join(WITH_LABELS)
            raise UsageError(f"labels belong to {kinds}, not to {self.output.kind}", "leave --labels out")
        if self.output.kind == "detection" and self.recipe.kind == "custom":
            raise UsageError(
                "a detector can't use --preprocess: boxes can't be mapped back through a function of your own",
                "use --recipe letterbox or stretch, by which boxes are placed on the picture",
            )
        if self.output.kind == "detection" and self.recipe.exif == "ignore":
            raise UsageError(
                "a detector can't use --exif ignore: its boxes refer to the upright picture", "leave --exif out"
            )
        if self.crop is not None:
            self._check_crop(self.crop)
        if self.input == "uint8-nhwc" and self.input_spec != InputSpec("uint8-nhwc"):
            raise UsageError("a uint8-nhwc module normalises by itself", "leave --mean and --std out")

    def _check_crop(self, crop: CropSpec) -> None:
        if self.output.kind == "detection":
            raise UsageError(
                "a second network classifies, measures or embeds objects and finds none itself",
                "leave --of out, or give another --output",
            )
        if self.name == crop.of:
            raise UsageError(f"--of {crop.of} is the name of this model", "give the model another --name")

    def own_files(self) -> dict[str, bytes]:
        """Return the labels and the preprocess function as the artifact stores them."""
        files = {}
        if self.labels is not None:
            if not self.labels.is_file():
                raise UsageError(f"no file {self.labels}", "--labels takes a text file, one label a line")
            files[LABELS_FILE] = format_labels(parse_labels(self.labels.read_bytes(), str(self.labels)))
        elif self.label_names:
            text = format_labels(self.label_names)
            files[LABELS_FILE] = format_labels(parse_labels(text, f"the labels of {self.source}"))
        if self.preprocess is not None:
            files[PREPROCESS_FILE] = standalone_code(resolve_callable(self.preprocess))
        if (detection := self.output.detection) and detection.is_own:
            files[HEAD_FILE] = standalone_code(resolve_callable(detection.head))
        if self.crop and self.crop.rule.is_own:
            files[CROP_FILE] = standalone_code(resolve_callable(self.crop.rule.kind))
            try_crop(self.crop.rule, files[CROP_FILE])
        return files

    def preprocess_of(self, files: dict[str, bytes]) -> Preprocess | None:
        """Load the preprocess function from the copy that runs use: a file with local imports fails now."""
        if self.preprocess is None:
            return None
        return load_function(files[PREPROCESS_FILE], self.preprocess.rpartition(":")[2], self.preprocess)

    def head_of(self, files: dict[str, bytes]) -> OwnHead | None:
        """Load the user's own head in the same way."""
        if HEAD_FILE not in files or self.output.detection is None:
            return None
        name = self.output.detection.head
        return load_function(files[HEAD_FILE], name.rpartition(":")[2], f"{self.name}/{HEAD_FILE}")


def try_crop(rule: CropRule, code: bytes) -> None:
    """Call a user's own crop function once: golden images, which are crops already, do not. Raises ModelError."""
    function = load_function(code, rule.kind.rpartition(":")[2], rule.kind)
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    try:
        cut_out(Picture.whole(picture), (0.25, 0.25, 0.5, 0.5), rule, function)
    except BadImage as bad:
        raise ModelError(
            f"{rule.kind} failed on a picture of 80x60 pixels: {bad.detail}",
            "it takes RGB uint8 (height, width, 3) and the box (x, y, width, height) in shares of the picture, and "
            "returns RGB uint8 (height, width, 3)",
        ) from bad


def num_labels(files: dict[str, bytes]) -> int | None:
    return len(parse_labels(files[LABELS_FILE], LABELS_FILE)) if LABELS_FILE in files else None
