"""The flags of the commands, and a record of the flags of each command that has many."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from infer_app.domain import Size

T = TypeVar("T")
DEFAULT_SIZE = Size.square(224)


def parse_size(text: str) -> Size:
    """Parse `224` or `640x480`. Raises BadParameter."""
    try:
        return Size.of(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, width x height") from None


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="PATH", envvar="INFER_CONFIG", help="The settings file.  [default: ./infer.toml]"
    ),
]
Date = Annotated[
    str, typer.Option("--date", "-d", metavar="DATE", help="The day: today, yesterday or a date such as 2026-11-20.")
]


def any_date(default: str) -> Any:
    """Return the option --date of a command that also works without a day; `default` says what it does then."""
    what = "The day: today, yesterday or a date such as 2026-11-20."
    return typer.Option("--date", "-d", metavar="DATE", help=f"{what}  [default: {default}]")


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
MODEL_HELP = "Name of a model, which means its version in use, or name@id for one version."
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME[@ID]",
        help=f"{MODEL_HELP} May be repeated: models of one recipe share reading and decoding.  "
        "[default: [run] models, else all]",
    ),
]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: [run] model, else all]"),
]
OneModel = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: [run] model, else the only name]"
    ),
]
ModelOrVersion = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: all]"),
]
ModelsOrVersions = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP} May be repeated.  [default: all that ran]"),
]
ModelName = Annotated[str, typer.Argument(metavar="NAME[@ID]", help=MODEL_HELP)]
ModelToRemove = Annotated[
    str,
    typer.Argument(metavar="NAME[@ID]", help="Name of a model that has one version, or name@id for one of several."),
]
ModelToUse = Annotated[
    str,
    typer.Argument(
        metavar="NAME[@ID]", help="Name of a model, which means its newest version, or name@id for another one."
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="full|half|int8",
        help="Precision of the model; half: bf16 on a CPU that computes it, fp16 or bf16 on a GPU.  "
        "[default: [run] precision, else full on a CPU and half on a GPU]",
    ),
]
AllowInt8 = Annotated[
    bool | None,
    typer.Option(
        "--allow-int8/--no-allow-int8",
        help="Use int8 if the model has a good int8 variant; --precision int8 replaces it.  [default: no]",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=0,
        metavar="N",
        help="Number of worker processes; 0: as many as were measured to be fastest here.  "
        "[default: [run] workers, else 0]",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success, for cron.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more.")]
LogFormat = Annotated[
    str | None,
    typer.Option(
        "--log-format",
        metavar="text|json",
        help="Format of the log on standard error; json: one object a line.  [default: [log] format, else text]",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Run on a sample, write nothing, and forecast how long a run takes.")
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="PATH", help="Write what each process did when to this file, for Perfetto."),
]
Report = Annotated[bool, typer.Option("--report", help="Write the day's report at the end.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, metavar="N", help="Take at most this many images.  [default: all]")
]
FinishBy = Annotated[
    str | None,
    typer.Option("--finish-by", metavar="HH:MM", help="Stop cleanly at this local time, with exit code 75."),
]
MaxDuration = Annotated[
    float | None,
    typer.Option("--max-duration", min=0, metavar="SECONDS", help="Stop cleanly after this time, with exit code 75."),
]
MaxRejected = Annotated[
    str | None,
    typer.Option(
        "--max-rejected",
        metavar="N|N%",
        help="Stop a day with exit code 3 above this number or share of rejected images; a share allows at least 10.  "
        "[default: [run] max_rejected, else 5%]",
    ),
]
Wait = Annotated[
    bool | None,
    typer.Option("--wait", help="Wait for another run that holds the day, instead of ending with exit code 13."),
]
Lookback = Annotated[
    int | None,
    typer.Option(
        "--lookback",
        min=0,
        metavar="N",
        help="Number of days before the day to check for late images.  [default: [run] lookback, else 3]",
    ),
]
Variant = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="auto|NAME",
        help="Variant of the model; auto: the fastest that is as exact as the source.  [default: [run] variant, "
        "else auto]",
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        "--executor",
        metavar="auto|cpu|cuda|ray",
        help="What runs the model; auto: by the device; cuda: the GPU pipeline, which needs no GPU; ray: a cluster.  "
        "[default: [run] executor, else auto]",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="auto|HOST:PORT|local",
        help="The Ray cluster; auto: the one this machine is in; local: this machine alone.  "
        "[default: [ray] address, else local]",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="auto|cpu|cuda",
        help="Where the model runs; cuda: end with exit code 12 if no GPU variant can run.  "
        "[default: [run] device, else auto]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class DaysOptions:
    """The options that `infer run` and `infer backfill` have in common. None: as in the settings."""

    model: Models = None
    limit: Limit = None
    finish_by: FinishBy = None
    max_duration: MaxDuration = None
    max_rejected: MaxRejected = None
    variant: Variant = None
    precision: Precision = None
    allow_int8: AllowInt8 = None
    workers: Workers = None
    wait: Wait = None
    quiet: Quiet = False
    verbose: Verbose = False
    log_format: LogFormat = None
    as_json: Json = False
    config: Config = None

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings that the options override, by section and key; None overrides nothing."""
        run = {
            "models": self.model or None,
            "max_rejected": self.max_rejected,
            "variant": self.variant,
            "precision": self.precision,
            "allow_int8": self.allow_int8,
            "workers": self.workers,
            "wait": self.wait,
        }
        return {"run": run, "log": {"format": self.log_format}}


@dataclass(frozen=True, kw_only=True)
class RunOptions(DaysOptions):
    """The options of `infer run`."""

    date: Date = "yesterday"
    dry_run: DryRun = False
    lookback: Lookback = None
    executor: Executor = None
    ray_address: RayAddress = None
    device: Device = None
    trace: TraceFile = None
    report: Report = False

    def settings(self) -> dict[str, dict[str, Any]]:
        common = super().settings()
        run = {"lookback": self.lookback, "executor": self.executor, "device": self.device}
        return common | {"run": common["run"] | run, "ray": {"address": self.ray_address}}


@dataclass(frozen=True, kw_only=True)
class BackfillOptions(DaysOptions):
    """The options of `infer backfill`."""

    first: Annotated[str, typer.Option("--from", metavar="DATE", help="The first day.")]
    last: Annotated[str, typer.Option("--to", metavar="DATE", help="The last day.")]

    def settings(self) -> dict[str, dict[str, Any]]:
        common = super().settings()
        return common | {"run": common["run"] | {"lookback": 0}}


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """The options of `infer bench`."""

    images: Annotated[
        Path | None,
        typer.Option("--images", metavar="PATH", help="Folder of images.  [default: the images of --date]"),
    ] = None
    date: Date = "yesterday"
    model: OneModel = None
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="Take at most this many images.")] = 1000
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="Measure only this strategy; may be repeated.  [default: all strategies]"
        ),
    ] = None
    workers: Workers = None
    as_json: Json = False
    config: Config = None


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
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of images, chosen at random.")] = 256
    min_agreement: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Share of the labels or objects that half precision and int8 must keep."),
    ] = "97%"
    as_json: Json = False
    config: Config = None


Until = Annotated[
    str | None, typer.Option("--until", metavar="DATE", help="Last day of a range that begins with --date.")
]
ExportedModel = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", metavar="NAME[@ID]", help=f"{MODEL_HELP}  [default: the only one that predicted these images]"
    ),
]
RelativeTo = Annotated[
    Path | None,
    typer.Option(
        "--relative-to",
        metavar="FOLDER",
        help="Name files by their paths in this folder, which must hold them all.  [default: as recorded]",
    ),
]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """The options of `infer export`."""

    date: Date = "yesterday"
    until: Until = None
    model: ExportedModel = None
    format: Annotated[
        str,
        typer.Option(
            metavar="coco|coco-results|megadetector|label-studio|yolo|csv|jsonl|parquet", help="What to write."
        ),
    ]
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="The file, for yolo a new folder.")]
    min_score: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="SCORE", help="Leave out what has a lower score.  [default: the model's thresholds]"
        ),
    ] = None
    relative_to: RelativeTo = None
    as_json: Json = False
    config: Config = None


@dataclass(frozen=True, kw_only=True)
class SampleOptions:
    """The options of `infer sample`."""

    date: Date = "yesterday"
    until: Until = None
    model: ExportedModel = None
    by: Annotated[
        str,
        typer.Option(
            metavar="uncertain|random|label",
            help="What is chosen; uncertain: where the model decides least; label: as many of each label as possible.",
        ),
    ] = "uncertain"
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Number of images.")] = 100
    format: Annotated[str, typer.Option(metavar="coco|label-studio", help="What to write.")]
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="The file.")]
    copy_to: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Copy the photos there and name the copies.  [default: name the photos]"),
    ] = None
    relative_to: RelativeTo = None
    seed: Annotated[int, typer.Option(metavar="N", help="Another number gives another choice by random and label.")] = 0
    as_json: Json = False
    config: Config = None


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
            metavar="exact|scaled|gpu",
            help="How JPEGs are decoded; scaled: large ones at a fraction of their size; gpu: by a GPU where possible.",
        ),
    ] = "exact"
    depth: Annotated[
        str,
        typer.Option(
            metavar="full|window:LOW,HIGH|percentile:LOW,HIGH",
            help="What of 16 bits becomes 0 to 255; full: the upper 8 bits; percentile: of each image.",
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
            metavar="NAME",
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
        int, typer.Option(min=1, metavar="N", help="For detection: keep this many best objects of an image.")
    ] = 300
    activation: Annotated[
        str,
        typer.Option(
            metavar="softmax|sigmoid|none",
            help="For classification and the head detr; none: the module returns probabilities.",
        ),
    ] = "softmax"
    threshold: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="SCORE", help="For sigmoid: list the labels with at least this score."),
    ] = 0.5
    top_k: Annotated[int, typer.Option(min=1, metavar="N", help="For softmax: keep this many best classes.")] = 5
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


def with_options(options: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Give a command the fields of the dataclass `options` as its flags, and pass it one instance.

    The fields of the class itself are listed before those that it inherits. A field `given` is no flag: it gets the
    names of the options that the user gave.
    """
    fields = dict(inspect.signature(options, eval_str=True).parameters)
    has_given = fields.pop("given", None) is not None
    flags = sorted(fields.values(), key=lambda field: field.name not in vars(options)["__annotations__"])
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    signature = inspect.Signature([*flags, context])

    def decorate(command: Callable[[T], None]) -> Callable[..., None]:
        @wraps(command)
        def call(context: typer.Context, **values: Any) -> None:
            if has_given:
                values["given"] = frozenset(name for name in values if _is_given(context, name))
            command(options(**values))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
