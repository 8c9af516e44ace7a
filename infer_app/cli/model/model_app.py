"""`infer model …`: its commands and their flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infer_app.cli.terminal.options import Config, Json, Limit, Workers

model_app = typer.Typer(help="Build, prove and list models.", no_args_is_help=True)


@model_app.command("build")
def model_build(
    source: Annotated[str, typer.Argument(help="A TorchScript file, or package.module:function giving a module.")],
    name: Annotated[str, typer.Option("--name", "-n", help="The model's name.")],
    weights: Annotated[Path | None, typer.Option(help="State dict or safetensors for a function's module.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Class names, one a line.")] = None,
    recipe: Annotated[
        str, typer.Option(help="resize-crop (torchvision, timm), crop-resize or stretch.")
    ] = "resize-crop",
    size: Annotated[int, typer.Option(min=1, help="Height and width of the model's input.")] = 224,
    resize: Annotated[int | None, typer.Option(min=1, help="resize-crop: shorter side before the crop.")] = None,
    crop_pct: Annotated[float | None, typer.Option(help="resize-crop as timm writes it: size / resize.")] = None,
    crop: Annotated[float | None, typer.Option(help="crop-resize: the square's share of the shorter side.")] = None,
    interpolation: Annotated[str, typer.Option(help="bicubic or bilinear.")] = "bicubic",
    exif: Annotated[str, typer.Option(help="apply or ignore the EXIF orientation.")] = "apply",
    decode: Annotated[
        str,
        typer.Option(help="exact; scaled: large JPEGs at a fraction of their size; or gpu: by a GPU, where it can."),
    ] = "exact",
    preprocess: Annotated[
        str | None, typer.Option(help="package.module:function instead of a recipe: RGB uint8 (H, W, 3) in and out.")
    ] = None,
    mean: Annotated[str | None, typer.Option(help="Of the channels, on the 0-1 scale.  [default: ImageNet's]")] = None,
    std: Annotated[str | None, typer.Option(help="The same.  [default: ImageNet's]")] = None,
    input_format: Annotated[
        str, typer.Option("--input", help="float-nchw, or uint8-nhwc for a module that normalises by itself.")
    ] = "float-nchw",
    output: Annotated[str, typer.Option(help="classification, embedding, regression or raw.")] = "classification",
    activation: Annotated[
        str, typer.Option(help="classification: softmax, sigmoid, or none for probabilities.")
    ] = "softmax",
    threshold: Annotated[float, typer.Option(min=0, max=1, help="sigmoid: labels from this score on.")] = 0.5,
    top_k: Annotated[int, typer.Option(min=1, help="softmax: so many best classes are kept.")] = 5,
    vector_dtype: Annotated[str, typer.Option(help="embedding: float32 or float16.")] = "float32",
    golden: Annotated[Path | None, typer.Option(help="Folder of images to prove the model on before each run.")] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="Folder of images like those to come: also makes the int8 variant.")
    ] = None,
    min_agreement: Annotated[
        str, typer.Option(help="Share of the labels that int8 must keep for a run to take it.")
    ] = "97%",
    variant: Annotated[
        list[str] | None,
        typer.Option(help="GPU variant to make on this machine: trt, cuda, trt-bf16 or cuda-bf16; may be repeated."),
    ] = None,
    tune: Annotated[bool, typer.Option(help="Measure here how many processes and threads are fastest.")] = True,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Make a model artifact: the source, its recipe and outputs, and golden images that prove it before every run."""
    from infer_app.cli.model import model

    recipe_flags = model.RecipeFlags(recipe, size, resize, crop_pct, crop, interpolation, exif, decode, preprocess)
    output_flags = model.OutputFlags(output, activation, threshold, top_k, vector_dtype)
    variant_flags = model.VariantFlags(calibrate, min_agreement, tune, tuple(variant or ()))
    model.build(
        source,
        name,
        weights,
        labels,
        recipe_flags,
        mean,
        std,
        input_format,
        output_flags,
        golden,
        variant_flags,
        as_json,
        config,
    )


@model_app.command("check")
def model_check(
    name: Annotated[str, typer.Argument(help="Name of a model.")],
    against: Annotated[str, typer.Option(help="Your package.module:function: path in, scores or label out.")],
    images: Annotated[Path, typer.Option(help="Folder of your images.")],
    limit: Limit = None,
    workers: Workers = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Your own function beside ours on your images: agreement, the worst images, both rates."""
    from infer_app.cli.model.check import check

    check(name, against, images, limit, workers, as_json, config)


@model_app.command("list")
def model_list(as_json: Json = False, config: Config = None) -> None:
    """The models that were built, the newest of a name first."""
    from infer_app.cli.model.model import list_models

    list_models(as_json, config)


@model_app.command("show")
def model_show(
    name: Annotated[str, typer.Argument(help="Name of a model.")], as_json: Json = False, config: Config = None
) -> None:
    """What a model is, its variants, and what was measured of them on each machine; --json for the whole manifest."""
    from infer_app.cli.model.model import show

    show(name, as_json, config)


@model_app.command("tune")
def model_tune(name: Annotated[str, typer.Argument(help="Name of a model.")], config: Config = None) -> None:
    """Measure its variants, batch sizes, processes and threads on this machine again."""
    from infer_app.cli.model.model import tune

    tune(name, config)


@model_app.command("verify")
def model_verify(
    name: Annotated[str | None, typer.Argument(help="Name of a model; without it all of them.")] = None,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Check every file of a model against its checksum, then its golden images."""
    from infer_app.cli.model.model import verify as verify_models

    verify_models(name, as_json, config)
