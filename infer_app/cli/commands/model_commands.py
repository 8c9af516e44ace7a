"""The commands of `infer model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from infer_app.cli.terminal.command import REQUIRED, argument, command, flag, option
from infer_app.cli.terminal.groups import model_app
from infer_app.cli.terminal.options import MODEL_HELP, Config, Date, Json, Limit, ModelName, Workers
from infer_app.recipe import Size

DEFAULT_SIZE = Size.square(224)
MIN_AGREEMENT = "Share of the labels or objects that half precision and int8 must keep."


def parse_size(text: str) -> Size:
    """Parse `224` or `640x480`. Raises BadParameter."""
    try:
        return Size.of(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, width x height") from None


@command(model_app, "build", "model.build:build", as_record=True)
class BuildOptions:
    """Build a model: its network, recipe, outputs and golden images.

    The model is verified on the golden images before every run.
    """

    source: str = argument(
        "SOURCE",
        "A TorchScript or ONNX file, the .xml of an OpenVINO IR, a folder of Hugging Face or timm, timm:NAME, "
        "torchvision:NAME, or package.module:function that returns a torch module.",
    )
    name: str = option("NAME", "The model's name.", "--name", "-n", default=REQUIRED)
    weights: Path | None = option(
        "PATH", "State dict or safetensors for the module of a function, timm or torchvision."
    )
    labels: Path | None = option("PATH", "Text file of class names, one a line.  [default: numbers]")
    recipe: str = option(
        "resize-crop|crop-resize|stretch|letterbox",
        "How an image becomes the model's input; resize-crop is torchvision's and timm's; letterbox fits it in, with "
        "pixels around it.  [default: resize-crop, letterbox for detection]",
        default="resize-crop",
        show_default=False,
    )
    pad: int | None = option(
        "LEVEL", "For letterbox: level of the pixels around the picture.  [default: 114]", min=0, max=255
    )
    size: Size = option(
        "N|WIDTHxHEIGHT",
        "Size of the model's input; one number is a square.  [default: 224]",
        default=DEFAULT_SIZE,
        parser=parse_size,
        show_default=False,
    )
    resize: Size | None = option(
        "N|WIDTHxHEIGHT",
        "Before the crop. For resize-crop the shorter side, or a size that is covered; for stretch the size.  "
        "[default: size / 0.875 for resize-crop, no crop for stretch]",
        parser=parse_size,
    )
    crop_pct: float | None = option("SHARE", "Instead of --resize, as timm has it: size / resize.")
    crop: float | None = option("SHARE", "For crop-resize: the square's share of the shorter side.  [default: 0.875]")
    crop_rounding: str = option(
        "nearest|down",
        "Where the centre begins when an odd number of pixels is cropped away; nearest: as in torchvision and timm; "
        "down: as in transformers.",
        default="nearest",
    )
    interpolation: str = option(
        "bicubic|bilinear",
        "How pixels are resized.  [default: bicubic, bilinear for detection]",
        default="bicubic",
        show_default=False,
    )
    exif: str = option("apply|ignore", "What is done with the EXIF orientation.", default="apply")
    decode: str = option(
        "exact|scaled", "How JPEGs are decoded; scaled: large ones at a fraction of their size.", default="exact"
    )
    depth: str = option(
        "full|window:LOW,HIGH|percentile:LOW,HIGH",
        "How 16-bit pixels become 0 to 255; full: the upper 8 bits; percentile: of each image.",
        default="full",
    )
    channels: str = option("rgb|bgr", "Order in which the network takes the channels.", default="rgb")
    preprocess: str | None = option(
        "MODULE:FUNCTION", "Your function instead of a recipe: takes and returns RGB uint8 (H, W, 3)."
    )
    mean: str | None = option(
        "R,G,B", "Means of the channels in their order, on the 0-1 scale.  [default: ImageNet's, 0 for detection]"
    )
    std: str | None = option(
        "R,G,B",
        "Standard deviations of the channels in their order, on the 0-1 scale.  [default: ImageNet's, 1 for detection]",
    )
    input: str = option(
        "float-nchw|uint8-nhwc",
        "The module's input; uint8-nhwc: it normalises the pixels itself.",
        default="float-nchw",
    )
    output: str = option(
        "classification|detection|embedding|regression|raw",
        "What the model's output means.",
        default="classification",
    )
    output_name: str | None = option(
        "NAME[,NAME…]",
        "For ONNX and OpenVINO: the output that is stored; of a detector several, with commas between.  "
        "[default: the only one]",
    )
    head: str | None = option(
        "boxes|yolo|yolo5|detr|MODULE:FUNCTION",
        "For detection: what the outputs mean, or your function that turns them into objects.  [default: by their "
        "shape]",
    )
    min_score: float = option(
        "SCORE", "For detection: store objects with at least this score.", default=0.05, min=0, max=1
    )
    nms: float = option(
        "IOU",
        "For detection: of two objects of one class that overlap more, keep the better; 1 keeps both.",
        default=0.45,
    )
    max_objects: int = option(
        "N", "For detection: keep at most this many objects per image, the best ones.", default=300, min=1
    )
    activation: str = option(
        "softmax|sigmoid|none|sigmoid-applied",
        "For classification and the head detr. Where the network ends in it already: none for softmax, sigmoid-applied "
        "for sigmoid.",
        default="softmax",
    )
    threshold: float = option(
        "SCORE", "For sigmoid: list the labels with at least this score.", default=0.5, min=0, max=1
    )
    top_k: int = option("N", "For softmax: keep this many classes, the best ones.", default=5, min=1)
    vector_dtype: str = option(
        "float32|float16", "For embedding: the type in which vectors are stored.", default="float32"
    )
    golden: Path | None = option(
        "PATH", "Folder of images to verify the model on before each run.  [default: generated ones]"
    )
    calibrate: Path | None = option(
        "PATH", "Folder of images like those to predict: also build int8, and judge half precision too."
    )
    min_agreement: str = option("SHARE", MIN_AGREEMENT, default="97%")
    variant: list[str] | None = option(
        "trt|cuda|trt-bf16|cuda-bf16", "GPU variant to build on this machine; may be repeated.  [default: none]"
    )
    use: bool = flag(
        "--use", "Put this version in use, as `infer model use NAME` does.  [default: only the first of its name]"
    )
    tune: bool = option(
        None,
        "Measure on this machine how many processes and threads are fastest.  [default: yes]",
        default=True,
        show_default=False,
    )
    as_json: Json = False
    config: Config = None
    given: frozenset[str] = frozenset()  # names of the options that the user gave

    def given_values(self) -> dict[str, Any]:
        """Return the options that the user gave by name, also those that equal their default."""
        return {name: getattr(self, name) for name in self.given}


@command(model_app, "check", "model.check:check", as_record=True)
class CheckOptions:
    """Compare a model with your own function on your images.

    Prints how often they agree, the worst images and both rates; exit code 2 if they never do.
    """

    name: ModelName
    against: str | None = option(
        "MODULE:FUNCTION",
        "Your function: takes a path, returns scores, a label, or the objects of a detector.  [default: the source's "
        "own library]",
    )
    images: Path = option("PATH", "Folder of your images.", default=REQUIRED)
    limit: Limit = None
    workers: Workers = None
    as_json: Json = False
    config: Config = None


@command(model_app, "judge", "model.judge_command:judge", as_record=True)
class JudgeOptions:
    """Judge half precision and int8 on images of a day.

    Prints how many labels each variant keeps. A run uses only variants that keep enough.
    """

    name: ModelName
    date: Date = "yesterday"
    count: int = option(
        "N",
        "Number of images, chosen at random. If it is given, the judgement also replaces one on more images.",
        default=256,
        min=1,
    )
    min_agreement: str = option("SHARE", MIN_AGREEMENT, default="97%")
    as_json: Json = False
    config: Config = None
    given: frozenset[str] = frozenset()  # names of the options that the user gave


@command(model_app, "list", "model.version_commands:list_models")
class ModelListOptions:
    """List the models by name, the newest version first: which is in use, since when, with how many predictions."""

    as_json: Json = False
    config: Config = None


@command(model_app, "use", "model.version_commands:use")
class ModelUseOptions:
    """Put a version of a model in use, or go back to an earlier one.

    Runs, the view infer_current_predictions and all commands follow it from then on.
    """

    wanted: str = argument("NAME[@ID]", "Name of a model, which means its newest version, or name@id for another one.")
    as_json: Json = False
    config: Config = None


@command(model_app, "remove", "model.version_commands:remove")
class ModelRemoveOptions:
    """Remove the files of a version of a model; its predictions stay."""

    wanted: str = argument("NAME[@ID]", "Name of a model that has one version, or name@id for one of several.")
    force: bool = flag("--force", "Also remove the version in use, if it is the only one of its name.")
    as_json: Json = False
    config: Config = None


@command(model_app, "show", "model.model:show")
class ModelShowOptions:
    """Show a model, its variants and what was measured of them.

    With --json the whole manifest is printed.
    """

    name: ModelName
    as_json: Json = False
    config: Config = None


@command(model_app, "tune", "model.model:tune")
class ModelTuneOptions:
    """Measure again how a model runs fastest on this machine.

    Its variants, batch sizes and numbers of processes and threads are tried.
    """

    name: ModelName
    config: Config = None


@command(model_app, "verify", "model.variant_files:verify")
class ModelVerifyOptions:
    """Check the files of a model against their checksums, and its golden images."""

    name: str | None = argument("NAME[@ID]", f"{MODEL_HELP}  [default: all]", None)
    as_json: Json = False
    config: Config = None
