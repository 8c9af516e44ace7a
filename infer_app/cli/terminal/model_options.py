"""The options of the commands of `infer model`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from infer_app.cli.terminal.options import Config, Date, Json, Limit, ModelName, Workers
from infer_app.recipe import Size

DEFAULT_SIZE = Size.square(224)


def parse_size(text: str) -> Size:
    """Parse `224` or `640x480`. Raises BadParameter."""
    try:
        return Size.of(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, width x height") from None


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The options of `infer model check`."""

    name: ModelName
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Your function: takes a path, returns scores, a label, or the objects of a detector.  [default: the "
            "source's own library]",
        ),
    ] = None
    images: Annotated[Path, typer.Option(metavar="PATH", help="Folder of your images.")]
    limit: Limit = None
    workers: Workers = None
    as_json: Json = False
    config: Config = None


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """The options of `infer model judge`."""

    name: ModelName
    date: Date = "yesterday"
    count: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of images, chosen at random. If it is given, the judgement also replaces one on more images.",
        ),
    ] = 256
    min_agreement: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Share of the labels or objects that half precision and int8 must keep."),
    ] = "97%"
    as_json: Json = False
    config: Config = None
    given: frozenset[str] = frozenset()  # names of the options that the user gave, by with_options


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options of `infer model build`."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A TorchScript or ONNX file, the .xml of an OpenVINO IR, a folder of Hugging Face or timm, timm:NAME, "
            "torchvision:NAME, or package.module:function that returns a torch module.",
        ),
    ]
    name: Annotated[str, typer.Option("--name", "-n", metavar="NAME", help="The model's name.")]
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="State dict or safetensors for the module of a function, timm or torchvision."
        ),
    ] = None
    labels: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Text file of class names, one a line.  [default: numbers]")
    ] = None
    recipe: Annotated[
        str,
        typer.Option(
            metavar="resize-crop|crop-resize|stretch|letterbox",
            help="How an image becomes the model's input; resize-crop is torchvision's and timm's; letterbox fits it "
            "in, with pixels around it.  [default: resize-crop, letterbox for detection]",
            show_default=False,
        ),
    ] = "resize-crop"
    pad: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=255,
            metavar="LEVEL",
            help="For letterbox: level of the pixels around the picture.  [default: 114]",
        ),
    ] = None
    size: Annotated[
        Size,
        typer.Option(
            parser=parse_size,
            metavar="N|WIDTHxHEIGHT",
            help="Size of the model's input; one number is a square.  [default: 224]",
            show_default=False,
        ),
    ] = DEFAULT_SIZE
    resize: Annotated[
        Size | None,
        typer.Option(
            parser=parse_size,
            metavar="N|WIDTHxHEIGHT",
            help="Before the crop. For resize-crop the shorter side, or a size that is covered; for stretch the size.  "
            "[default: size / 0.875 for resize-crop, no crop for stretch]",
        ),
    ] = None
    crop_pct: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Instead of --resize, as timm has it: size / resize."),
    ] = None
    crop: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="For crop-resize: the square's share of the shorter side.  [default: 0.875]"
        ),
    ] = None
    crop_rounding: Annotated[
        str,
        typer.Option(
            metavar="nearest|down",
            help="Where the centre begins when an odd number of pixels is cropped away; nearest: as in torchvision and "
            "timm; down: as in transformers.",
        ),
    ] = "nearest"
    interpolation: Annotated[
        str,
        typer.Option(
            metavar="bicubic|bilinear",
            help="How pixels are resized.  [default: bicubic, bilinear for detection]",
            show_default=False,
        ),
    ] = "bicubic"
    exif: Annotated[str, typer.Option(metavar="apply|ignore", help="What is done with the EXIF orientation.")] = "apply"
    decode: Annotated[
        str,
        typer.Option(
            metavar="exact|scaled",
            help="How JPEGs are decoded; scaled: large ones at a fraction of their size.",
        ),
    ] = "exact"
    depth: Annotated[
        str,
        typer.Option(
            metavar="full|window:LOW,HIGH|percentile:LOW,HIGH",
            help="How 16-bit pixels become 0 to 255; full: the upper 8 bits; percentile: of each image.",
        ),
    ] = "full"
    channels: Annotated[str, typer.Option(metavar="rgb|bgr", help="Order in which the network takes the channels.")] = (
        "rgb"
    )
    preprocess: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Your function instead of a recipe: takes and returns RGB uint8 (H, W, 3).",
        ),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            metavar="R,G,B",
            help="Means of the channels in their order, on the 0-1 scale.  [default: ImageNet's, 0 for detection]",
        ),
    ] = None
    std: Annotated[
        str | None,
        typer.Option(
            metavar="R,G,B",
            help="Standard deviations of the channels in their order, on the 0-1 scale.  [default: ImageNet's, 1 for "
            "detection]",
        ),
    ] = None
    input: Annotated[
        str,
        typer.Option(
            metavar="float-nchw|uint8-nhwc", help="The module's input; uint8-nhwc: it normalises the pixels itself."
        ),
    ] = "float-nchw"
    output: Annotated[
        str,
        typer.Option(
            metavar="classification|detection|embedding|regression|raw", help="What the model's output means."
        ),
    ] = "classification"
    output_name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME…]",
            help="For ONNX and OpenVINO: the output that is stored; of a detector several, with commas between.  "
            "[default: the only one]",
        ),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(
            metavar="boxes|yolo|yolo5|detr|MODULE:FUNCTION",
            help="For detection: what the outputs mean, or your function that turns them into objects.  [default: by "
            "their shape]",
        ),
    ] = None
    min_score: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SCORE", help="For detection: store objects with at least this score."),
    ] = 0.05
    nms: Annotated[
        float,
        typer.Option(
            metavar="IOU",
            help="For detection: of two objects of one class that overlap more, keep the better; 1 keeps both.",
        ),
    ] = 0.45
    max_objects: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="For detection: keep at most this many objects per image, the best ones."
        ),
    ] = 300
    activation: Annotated[
        str,
        typer.Option(
            metavar="softmax|sigmoid|none|sigmoid-applied",
            help="For classification and the head detr. Where the network ends in it already: none for softmax, "
            "sigmoid-applied for sigmoid.",
        ),
    ] = "softmax"
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SCORE", help="For sigmoid: list the labels with at least this score."),
    ] = 0.5
    top_k: Annotated[
        int, typer.Option(min=1, metavar="N", help="For softmax: keep this many classes, the best ones.")
    ] = 5
    vector_dtype: Annotated[
        str, typer.Option(metavar="float32|float16", help="For embedding: the type in which vectors are stored.")
    ] = "float32"
    golden: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Folder of images to verify the model on before each run.  [default: generated ones]"
        ),
    ] = None
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Folder of images like those to predict: also build int8, and judge half precision too.",
        ),
    ] = None
    min_agreement: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Share of the labels or objects that half precision and int8 must keep."),
    ] = "97%"
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="trt|cuda|trt-bf16|cuda-bf16",
            help="GPU variant to build on this machine; may be repeated.  [default: none]",
        ),
    ] = None
    use: Annotated[
        bool,
        typer.Option(
            "--use",
            help="Put this version in use, as `infer model use NAME` does.  [default: only the first of its name]",
        ),
    ] = False
    tune: Annotated[
        bool,
        typer.Option(
            help="Measure on this machine how many processes and threads are fastest.  [default: yes]",
            show_default=False,
        ),
    ] = True
    as_json: Json = False
    config: Config = None
    given: frozenset[str] = frozenset()  # names of the options that the user gave, by with_options

    def given_values(self) -> dict[str, Any]:
        """Return the options that the user gave by name, also those that equal their default."""
        return {name: getattr(self, name) for name in self.given}
