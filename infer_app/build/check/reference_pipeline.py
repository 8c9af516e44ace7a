"""What `infer model check` compares a model with by default: its source, run in the plainest way."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, ParamSpec

import numpy as np
import torch
from PIL import Image

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.recipe import Recipe
from infer_app.base.size import Size
from infer_app.build.network.model_source import LibrarySource, find_source
from infer_app.build.network.source_kinds import load_source
from infer_app.predict.detection.boxes import in_pixels
from infer_app.predict.images.decode.decoder import open_image, rgb_of
from infer_app.predict.images.decode.formats import sniff
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.crop import Shares, cut_out
from infer_app.predict.images.transform.geometry import Picture, Pixels
from infer_app.predict.images.transform.to_pixels import reference_transform, transform
from infer_app.predict.runtimes.torchscript import rows_of, run_source
from infer_app.predict.verification.outputs import open_decoder

RECIPE_UNCHECKED = "this does not check the recipe, which --against package.module:function does"


Input = ParamSpec("Input")


@dataclass(frozen=True, slots=True)
class ReferencePipeline(Generic[Input]):
    """What a model is compared with: a function that gives an answer, and a description of it.

    The function takes a file, or of a second network the pixels of an upright picture, uint8 RGB (H, W, 3), and a box.
    """

    answer: Callable[Input, object]
    described: str
    gives_outputs: bool = False  # of the network, and not what a user's function makes of them


def reference_pipeline(artifact: Artifact) -> ReferencePipeline[[Path]]:
    """Return a model's source, run in the plainest way.

    A network of another library is made again by that library and gets what its own transforms make of the image. Any
    other source is run in fp32 on the pixels of its recipe as Pillow makes them, which says nothing about the recipe.
    Raises UsageError or ModelError if the library or the source is not there any more.
    """
    answer, described = _source_pipeline(artifact)
    recipe = artifact.manifest.recipe
    return ReferencePipeline(lambda path: answer(open_upright(path, recipe)), described, gives_outputs=True)


def crop_reference(artifact: Artifact) -> ReferencePipeline[[Pixels, Shares]]:
    """Return the same of a second network, for the crops that its rule cuts out."""
    answer, described = _source_pipeline(artifact)
    crop, function = artifact.manifest.crop, artifact.crop_function()
    assert crop is not None

    def of_box(rgb: Pixels, box: Shares) -> object:
        return answer(cut_out(Picture.whole(rgb), box, crop.rule, function).rgb)

    return ReferencePipeline(of_box, described, gives_outputs=True)


def _source_pipeline(artifact: Artifact) -> tuple[Callable[[Pixels], object], str]:
    """Return what the source gives for a picture, and a description of it."""
    manifest = artifact.manifest
    if is_of_library(manifest.source) and manifest.output.kind == "classification":
        source = find_source(manifest.source, None if manifest.weights is None else Path(manifest.weights))
        if isinstance(source, LibrarySource):
            return _library_pipeline(artifact, source), f"the transforms and the network of {manifest.source}"
    return _recipe_pipeline(artifact), f"Pillow by the same recipe and the network in fp32: {RECIPE_UNCHECKED}"


def is_of_library(source: str) -> bool:
    """Return whether a source is a network of another library, and still there."""
    return Path(source).is_dir() or source.startswith(("timm:", "torchvision:"))


def _library_pipeline(artifact: Artifact, source: LibrarySource) -> Callable[[Pixels], object]:
    module = load_source(artifact) if source.network.onnx else source.make_module()
    prepare = source.network.make_transform()

    @torch.inference_mode()
    def answer(rgb: Pixels) -> object:
        return module(prepare(Image.fromarray(np.ascontiguousarray(rgb)))[None])[0]

    return answer


def _recipe_pipeline(artifact: Artifact) -> Callable[[Pixels], object]:
    manifest, preprocess = artifact.manifest, artifact.preprocess()
    module, decode = load_source(artifact), open_decoder(artifact)

    def answer(rgb: Pixels) -> object:
        if preprocess is None:
            pixels = reference_transform(rgb, manifest.recipe)
        else:
            pixels = transform(rgb, manifest.recipe, preprocess)
        outputs = run_source(module, manifest.input_spec, torch.from_numpy(pixels[None]))
        if manifest.output.kind != "detection":
            return outputs[0]
        picture = Size(rgb.shape[1], rgb.shape[0])
        (found,) = decode(rows_of(outputs).numpy(), [picture])
        if found is None:
            raise ValueError("the network's output has a NaN or an infinity")
        return in_pixels(found.objects or (), picture)

    return answer


def open_upright(path: Path, recipe: Recipe) -> Pixels:
    """Decode a file by Pillow, upright unless the recipe ignores that. Raises ValueError for one that can't be read."""
    data = path.read_bytes()
    try:
        return rgb_of(open_image(data, sniff(data)), recipe.exif, recipe.depth)
    except BadImage as bad:
        raise ValueError(f"{bad.reason}: {bad.detail}") from bad
