"""`infer model build`: its options, which are many."""

from pathlib import Path

import typer

from infer_app.artifact.recipe import CROP_KINDS
from infer_app.artifact.specs import HEADS
from infer_app.base.domain import OutputKind
from infer_app.base.size import Size
from infer_app.cli.terminal.command import MIN_AGREEMENT, REQUIRED, WithJson, argument, command, flag, option
from infer_app.cli.terminal.groups import model_app

DEFAULT_SIZE = Size.square(224)


def parse_size(text: str) -> Size:
    """Parse `224` or `640x480`. Raises BadParameter."""
    try:
        return Size.of(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, width x height") from None


@command(model_app, "build", "model.build:build", as_record=True)
class BuildOptions(WithJson):
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
    crop_pct: float | None = option(
        "SHARE",
        "Instead of --resize, as timm has it: size / resize. For crop-resize the square's share of the shorter side.  "
        "[default: 0.875 for crop-resize]",
    )
    centre: str = option(
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
    antialias: str = option(
        "yes|no",
        "Whether a pixel of a shrunk picture is made of all that it stands for; no: of the nearest, as OpenCV and "
        "YOLO's own programs do.",
        default="yes",
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
        "|".join(OutputKind),
        "What the model's output means.",
        default="classification",
    )
    output_name: str | None = option(
        "NAME[,NAME…]",
        "For ONNX and OpenVINO: the output that is stored; of a detector several, with commas between.  "
        "[default: the only one]",
    )
    head: str | None = option(
        "|".join((*HEADS, "MODULE:FUNCTION")),
        "For detection: what the outputs mean, or your function that turns them into objects.  [default: by their "
        "shape]",
    )
    min_score: float = option(
        "SCORE",
        "For detection: store objects with at least this score. With --of: take those with at least this score.  "
        "[default: 0.05; with --of all that the detector stores]",
        default=0.05,
        min=0,
        max=1,
        show_default=False,
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
    of: str | None = option(
        "NAME",
        "Make a second network, whose pictures are the objects that this detector finds.  [default: whole images]",
    )
    of_label: list[str] | None = option(
        "LABEL[,LABEL…]", "With --of: take objects of this label; may be repeated.  [default: all]"
    )
    crop: str = option(
        "|".join((*CROP_KINDS, "MODULE:FUNCTION")),
        "With --of: what is cut out; square-pad: as MegaDetector, with black around; or your function, which takes the "
        "picture and the box and returns RGB uint8 (h, w, 3).",
        default="box",
    )
    crop_margin: str = option(
        "SHARE|Npx", "With --of: how much each side of the box grows, for example 0.1 or 30px.", default="0"
    )
    crop_min: str = option("Npx", "With --of: the least side of what is cut out, for example 224px.", default="0px")
    crop_rounding: str = option(
        "int|nearest",
        "With --of: how a box becomes whole pixels; int: left, top, width and height are truncated, as in MegaDetector "
        "and SpeciesNet; nearest: the four edges are rounded.",
        default="int",
    )
    golden: Path | None = option(
        "PATH", "Folder of images to verify the model on before each run.  [default: generated ones]"
    )
    calibrate: Path | None = option(
        "PATH", "Folder of images like those to predict: also build int8, and judge half precision too."
    )
    min_agreement: str | None = option("SHARE", MIN_AGREEMENT)
    variant: list[str] | None = option(
        "trt|cuda|trt-bf16|cuda-bf16", "GPU variant to build on this machine; may be repeated.  [default: none]"
    )
    use: bool = flag(
        "--use", "Put this version in use, as `infer model use NAME` does.  [default: only the first of its name]"
    )
    given: frozenset[str] = frozenset()  # names of the options that the user gave, also with their default's value
