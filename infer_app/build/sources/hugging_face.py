"""Read what a Hugging Face folder says about a network's use, and make the network by transformers."""

import json
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from infer_app.base.errors import ModelError, UsageError, first_line
from infer_app.base.size import Size
from infer_app.build.sources.source_facts import (
    CONFIG,
    FactCollector,
    LibraryNetwork,
    SourceFacts,
    Transform,
    as_text,
    names_of,
    read_config,
    read_entries,
    require_library,
)

PREPROCESSOR, PROCESSOR = "preprocessor_config.json", "processor_config.json"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
_ONNX = ("model.onnx", "onnx/model.onnx")
_GEOMETRY = frozenset({"recipe", "preprocess"})
_OWN_PIXELS = "prepare pictures by your own function: --set preprocess=package.module:function; or give --recipe"
_RESAMPLE = {2: "bilinear", 3: "bicubic"}  # PIL.Image.Resampling
_SUFFIXES = ("Fast", "Pil", "ImageProcessor", "FeatureExtractor")
# Image processors that do nothing besides: by what a size of one number means, a square or the shorter side.
_SQUARE = frozenset({"ViT", "DeiT", "Beit", "Pvt"})
_SHORTER_SIDE = frozenset({"Bit", "CLIP", "MobileNetV1", "MobileNetV2", "MobileViT", "ConvNext", "Siglip"})
_CROPS = frozenset({"Bit", "CLIP", "MobileNetV1", "MobileNetV2", "MobileViT", "DeiT"})  # by default


class Logits(nn.Module):
    """A classifier of transformers that returns the tensor of its logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.network(pixel_values=pixels).logits
        return logits


def hugging_face_facts(config: Mapping[str, Any], preprocessor: Mapping[str, Any] | None) -> SourceFacts:
    """Return what both JSON files of a folder say; `preprocessor` is None where that file is missing."""
    said = FactCollector(CONFIG)
    if names := names_of(config.get("id2label")):
        said.take("id2label", labels=names)
    elif config.get("id2label"):
        what = f"the id2label in {CONFIG} has no names of the classes 0, 1, 2, …"
        said.refuse(what, "give --labels FILE", "labels")
    if config.get("problem_type") == "multi_label_classification":
        said.take("problem_type", activation="sigmoid")
    architecture = (config.get("architectures") or ["no network"])[0]
    if "ForImageClassification" not in architecture:
        what = f"the folder has {architecture}, which is no image classifier"
        hint = "write a function that returns the module and give --output: docs/how-to/coming-from.md"
        said.refuse(what, hint, "output")
    if "auto_map" in config:
        what = f"the network is code of its own in the folder ({CONFIG} auto_map), which is not run"
        said.refuse(what, "read that code, then write a function that returns the module")
    if preprocessor is None:
        what = f"the folder has no {PREPROCESSOR}, which says how pictures are prepared"
        said.refuse(what, f"copy it there; or {_OWN_PIXELS}", *_GEOMETRY)
        return said.collected()
    return said.collected().merged(_pixels(preprocessor))


def open_hugging_face(folder: Path) -> LibraryNetwork:
    """Return the network of a folder as `save_pretrained` writes it.

    An ONNX export in the folder is taken where there are no weights, or no transformers to load them.
    """
    config = read_config(folder / CONFIG)
    with read_entries(folder):
        facts = hugging_face_facts(config, _read_preprocessor(folder))
    onnx = next((folder / name for name in _ONNX if (folder / name).is_file()), None)
    has_weights = any((folder / name).is_file() for name in _WEIGHTS)
    if not has_weights and onnx is None:
        raise UsageError(f"{folder} has no weights: {', '.join(_WEIGHTS)} or {_ONNX[0]}", "copy them there")
    if has_weights and find_spec("transformers"):
        onnx = None
    library = f" transformers {version('transformers')}" if find_spec("transformers") else ""
    definition = json.dumps(config, sort_keys=True) + library
    return LibraryNetwork(facts, definition, partial(_make, folder), partial(_make_transform, folder), onnx)


def _read_preprocessor(folder: Path) -> Mapping[str, object] | None:
    """Return the entries of the image processor; those in a processor's own file come first, as in transformers."""
    if (folder / PROCESSOR).is_file() and "image_processor" in (processor := read_config(folder / PROCESSOR)):
        entries: Mapping[str, object] = processor["image_processor"]
        return entries
    return read_config(folder / PREPROCESSOR) if (folder / PREPROCESSOR).is_file() else None


def _pixels(preprocessor: Mapping[str, Any]) -> SourceFacts:
    """Return what a preprocessor_config.json says of size, crop, interpolation, mean and std."""
    name = str(preprocessor.get("image_processor_type") or preprocessor.get("feature_extractor_type") or "")
    family, said = name, FactCollector(PREPROCESSOR)
    for suffix in _SUFFIXES:
        family = family.removesuffix(suffix)
    if family not in _SQUARE | _SHORTER_SIDE:
        what = f"{PREPROCESSOR} is of {name or 'an unknown type'}, whose steps are not known here"
        said.refuse(what, _OWN_PIXELS, *_GEOMETRY)
        return said.collected()
    geometry = _geometry(preprocessor, family)
    if isinstance(geometry, str):
        said.refuse(f"{PREPROCESSOR} {geometry}", _OWN_PIXELS, *_GEOMETRY)
    else:
        said.take("size", **geometry)
    if preprocessor.get("resample") in _RESAMPLE:
        said.take("resample", interpolation=_RESAMPLE[preprocessor["resample"]])
    else:
        what = f"{PREPROCESSOR} has resample {preprocessor.get('resample')}, which no recipe does"
        said.refuse(what, "give interpolation bilinear or bicubic", "interpolation", "preprocess")
    if family == "MobileViT" and preprocessor.get("do_flip_channel_order", True):
        said.take("do_flip_channel_order", channels="bgr")
    return said.collected().merged(_normalisation(preprocessor, family))


def _geometry(preprocessor: Mapping[str, Any], family: str) -> dict[str, object] | str:
    """Return the options of the recipe, or what none does; transformers rounds the start of a crop down."""
    if not preprocessor.get("do_resize", True):
        return "does not resize pictures (do_resize)"
    if preprocessor.get("do_pad"):
        return "pads pictures (do_pad), which no recipe does"
    size = None if "default_to_square" in preprocessor else preprocessor.get("size")
    resized = _sides(size, family in _SQUARE)
    is_cropped = preprocessor.get("do_center_crop", family in _CROPS)
    cropped = _sides(preprocessor.get("crop_size"), True) if is_cropped else None
    sizes = f"size {preprocessor.get('size')} and crop_size {preprocessor.get('crop_size')}"
    unknown = f"has {sizes}, which no recipe does"
    if family == "ConvNext" and isinstance(resized, int):  # below 384 it crops to it first
        edge = Size.square(resized)
        cropped = cropped if is_cropped else edge
        if not isinstance(cropped, Size) or any(side > resized or (resized - side) % 2 for side in cropped):
            return unknown  # two crops are one only if both halve an even margin
        resized = edge if resized >= 384 else int(resized / preprocessor.get("crop_pct", 0.875))
    if isinstance(resized, Size) and not is_cropped:
        return {"recipe": "stretch", "size": resized}
    if not isinstance(cropped, Size) or resized is None:
        return unknown
    recipe = "stretch" if isinstance(resized, Size) else "resize-crop"
    resize = resized if isinstance(resized, Size) else Size.square(resized)
    if resize.width < cropped.width or resize.height < cropped.height:  # transformers pads then
        return unknown
    return {"recipe": recipe, "size": cropped, "resize": resize, "centre": "down"}


def _sides(size: object, is_square: bool) -> Size | int | None:
    """Return a Size, the length of the shorter side, or None for anything else."""
    if isinstance(size, int):
        return Size.square(size) if is_square else size
    if isinstance(size, Mapping) and size.keys() == {"height", "width"}:
        return Size(size["width"], size["height"])
    if isinstance(size, Mapping) and size.keys() == {"shortest_edge"}:
        return int(size["shortest_edge"])
    return None


def _normalisation(preprocessor: Mapping[str, Any], family: str) -> SourceFacts:
    """Return mean and std for pixels of 0-1: transformers multiplies by rescale_factor, then normalises."""
    said = FactCollector(PREPROCESSOR)
    factor = preprocessor.get("rescale_factor", 1 / 255) if preprocessor.get("do_rescale", True) else 1
    mean, std = [0.0] * 3, [1.0] * 3
    if preprocessor.get("do_normalize", family != "MobileViT"):
        missing = sorted({"image_mean", "image_std"} - preprocessor.keys())
        if family == "MobileViT" or missing:
            why = f"normalises but has no {' and no '.join(missing)}"
            if family == "MobileViT":
                why = "normalises, which MobileViT's image processor does not do"
            said.refuse(f"{PREPROCESSOR} {why}", "give mean and std", "mean", "std")
            return said.collected()
        mean, std = preprocessor["image_mean"], preprocessor["image_std"]
    scale = 1 / (factor * 255)
    scale = 1.0 if abs(scale - 1) < 1e-6 else scale
    for option, values in (("mean", mean), ("std", std)):
        scaled = as_text([float(value) * scale for value in as_text(values).split(",")])
        said.take("image_mean, image_std", **{option: scaled})
    return said.collected()


def _make(folder: Path) -> nn.Module:
    require_library("transformers")
    from transformers import AutoModelForImageClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        network, loaded = AutoModelForImageClassification.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except Exception as error:  # a library may raise anything
        raise ModelError(
            f"transformers can't load {folder}: {first_line(error)}", "is it as save_pretrained writes it?"
        ) from error
    if missing := sorted(loaded["missing_keys"]):  # transformers would give them random values
        raise ModelError(
            f"the weights in {folder} lack {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else ""),
            "is this the network that was trained to classify? save it again by save_pretrained",
        )
    return Logits(network)


def _make_transform(folder: Path) -> Transform:
    require_library("transformers")
    from transformers import AutoImageProcessor

    processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True, trust_remote_code=False)

    def transform(image: object) -> Tensor:
        pixels: Tensor = processor(image, return_tensors="pt")["pixel_values"][0]
        return pixels

    return transform
