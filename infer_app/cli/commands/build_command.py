"""`infer model build` and `describe`: their options."""

from pathlib import Path

from infer_app.base.domain import OutputKind
from infer_app.cli.terminal.command import MIN_AGREEMENT, WithJson, argument, command, flag, option
from infer_app.cli.terminal.groups import model_app

SOURCES = (
    "A TorchScript or ONNX file, the .xml of an OpenVINO IR, a folder of Hugging Face or timm, timm:NAME, "
    "torchvision:NAME, or package.module:function that returns a torch module"
)
SET = "Another key of a model file, such as interpolation=bilinear; may be repeated."
WEIGHTS = "State dict or safetensors for the module of a function, timm or torchvision."


@command(model_app, "build", "model.build:build", as_record=True)
class BuildOptions(WithJson):
    """Build a model: its network, recipe, outputs and golden images.

    What it is built from is described by a model file, by these options, which have precedence, and by the source
    itself. The model is verified on the golden images before every run.
    """

    source: str = argument("SOURCE|FILE.toml", f"{SOURCES}; or a model file, which names one.")
    name: str | None = option("NAME", "The model's name.", "--name", "-n")
    labels: Path | None = option("PATH", "Text file of class names, one a line.  [default: numbers]")
    output: str | None = option("|".join(OutputKind), "What the model's output means.  [default: classification]")
    recipe: str | None = option(
        "resize-crop|crop-resize|stretch|letterbox",
        "How an image becomes the model's input; resize-crop is torchvision's and timm's; letterbox fits it in, with "
        "pixels around it.  [default: resize-crop, letterbox for detection]",
    )
    size: str | None = option("N|WIDTHxHEIGHT", "Size of the model's input; one number is a square.  [default: 224]")
    weights: Path | None = option("PATH", WEIGHTS)
    set: list[str] | None = option("KEY=VALUE", SET)
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


@command(model_app, "describe", "model.describe:describe", as_record=True)
class DescribeOptions:
    """Write a model file by what a source says about itself.

    What it does not say, and a wrong guess would show nowhere, is left blank. A file that is there is not replaced.
    """

    source: str = argument("SOURCE", f"{SOURCES}.")
    to: Path | None = option("PATH", "The file to write, for example model.toml. Unless set, it is printed.")
    weights: Path | None = option("PATH", WEIGHTS)
    set: list[str] | None = option("KEY=VALUE", SET)
