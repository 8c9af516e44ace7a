"""Read what timm says about a network's use, in its registry or in a folder, and make the network."""

import difflib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torch import nn

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
from infer_app.build.sources.weights import load_weights, make_with_weights

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_LOADING = frozenset({"checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"})
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # timm's default


def timm_facts(config: Mapping[str, Any], origin: str, labels: object = None) -> SourceFacts:
    """Return what a `pretrained_cfg` says, with timm's defaults for what it leaves out.

    As timm.data.resolve_data_config and transforms_imagenet_eval have it: the picture is resized to
    floor(size / crop_pct), and its centre cropped.
    """
    channels, height, width = config.get("input_size") or (3, 224, 224)
    crop_mode, crop_pct = config.get("crop_mode") or "center", config.get("crop_pct") or 0.875
    interpolation = config.get("interpolation") or "bicubic"
    said = FactCollector(origin)
    said.take("crop_mode", recipe="stretch" if crop_mode == "squash" else "resize-crop")
    said.take("input_size", size=Size(width, height))
    said.take("crop_pct", crop_pct=crop_pct)
    said.take("interpolation", interpolation=interpolation)
    for option, default in _IMAGENET.items():
        said.take(option, **{option: as_text(config.get(option) or default)})
    if names := names_of(labels):
        said.take("label_names", labels=names)
    if channels != 3:
        what = f"the network takes pictures of {channels} channels ({origin} input_size)"
        said.refuse(what, "only networks of 3 channels are supported")
    if crop_mode not in ("center", "squash"):
        what = f"crop_mode {crop_mode} pads pictures ({origin}), which no recipe does"
        hint = "pad them by your own function: --set preprocess=package.module:function; or give --recipe stretch"
        said.refuse(what, hint, "recipe", "preprocess")
    if interpolation not in ("bilinear", "bicubic"):
        what = f"interpolation {interpolation} ({origin}) is not supported"
        said.refuse(what, "give interpolation bilinear or bicubic", "interpolation")
    if config.get("fixed_input_size"):
        said.facts["size"] = replace(said.facts["size"], is_fixed=True)
    return said.collected()


def open_timm(source: str, weights: Path | None) -> LibraryNetwork:
    """Return the network of a folder as timm saves it, or of a name in timm's registry with a file of weights."""
    folder = Path(source)
    return _open_folder(folder) if folder.is_dir() else _open_name(source, weights)


def _open_folder(folder: Path) -> LibraryNetwork:
    config = read_config(folder / CONFIG)
    if "architecture" not in config or not isinstance(config.get("pretrained_cfg"), dict):
        raise ModelError(
            f"{folder / CONFIG} is not timm's: it has no architecture with a pretrained_cfg",
            "leave out timm: for a Hugging Face folder, or save it by timm.models.save_for_hf",
        )
    found = next((folder / name for name in _WEIGHTS if (folder / name).is_file()), None)
    if found is None:
        raise UsageError(f"{folder} has no weights: {' or '.join(_WEIGHTS)}", "copy the file there")

    architecture, arguments, own = config["architecture"], config.get("model_args") or {}, config["pretrained_cfg"]
    if loading := sorted(_LOADING & arguments.keys()):
        raise ModelError(
            f"{folder / CONFIG} has {loading[0]} in its model_args", "remove it: the weights lie beside it"
        )

    def make() -> nn.Module:
        module = _create(architecture, pretrained_cfg=own, **arguments)
        load_weights(module, found)
        return module

    with read_entries(folder / CONFIG):
        facts = timm_facts(own, CONFIG, config.get("label_names") or own.get("label_names"))
    return LibraryNetwork(facts, json.dumps(config, sort_keys=True) + _version(), make, partial(_make_transform, own))


def _open_name(name: str, weights: Path | None) -> LibraryNetwork:
    require_library("timm")
    import timm

    found = timm.models.get_pretrained_cfg(name) if timm.models.is_model(name) else None
    if found is None:
        close = difflib.get_close_matches(name, timm.list_models(), n=1)
        raise UsageError(
            f"timm has no network {name!r}, and there is no such folder",
            f"did you mean timm:{close[0]}?" if close else "",
        )
    if weights is None:
        raise UsageError(
            f"timm:{name} has no trained weights, and nothing is downloaded", "name a file of weights: --weights FILE"
        )
    config = found.to_dict()
    full_name = ".".join(filter(None, (found.architecture, found.tag)))
    make = partial(make_with_weights, partial(_create, name), weights)
    facts = timm_facts(config, f"timm's {full_name}")
    return LibraryNetwork(facts, full_name + _version(), make, partial(_make_transform, config))


def _version() -> str:
    return f" timm {version('timm')}" if find_spec("timm") else ""


def _create(architecture: str, **arguments: object) -> nn.Module:
    require_library("timm")
    import timm

    if not timm.models.is_model(architecture):  # it may also be the name of a network to download
        raise ModelError(f"timm has no network {architecture!r}", "check the config.json, and timm's version")
    try:
        module: nn.Module = timm.create_model(architecture, pretrained=False, **arguments)
    except Exception as error:  # a library may raise anything
        raise ModelError(f"timm can't make {architecture}: {first_line(error)}", "check timm's version") from error
    return module


def _make_transform(config: Mapping[str, object]) -> Transform:
    require_library("timm")
    from timm.data import create_transform, resolve_data_config

    transform: Transform = create_transform(**resolve_data_config(pretrained_cfg=dict(config)))
    return transform
