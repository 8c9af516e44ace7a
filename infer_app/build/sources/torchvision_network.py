"""Read what torchvision says about a network's use, and make the network."""

import difflib
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from infer_app.base.errors import UsageError
from infer_app.base.size import Size
from infer_app.build.sources.source_facts import (
    GEOMETRY,
    Fact,
    LibraryNetwork,
    SourceFacts,
    Transform,
    Unsupported,
    as_text,
    require_library,
)
from infer_app.build.sources.weights import make_with_weights

_NORMALISES = frozenset({"inception_v3", "googlenet"})


def torchvision_facts(transforms: Any, origin: str, labels: Sequence[str] = ()) -> SourceFacts:
    """Return what the transforms of weights say: torchvision.transforms._presets.ImageClassification."""
    (size,), (resize,) = transforms.crop_size, transforms.resize_size
    values = {
        "recipe": "resize-crop",
        "size": Size.square(size),
        "resize": Size.square(resize),
        "interpolation": transforms.interpolation.value,
        "mean": as_text(transforms.mean),
        "std": as_text(transforms.std),
    }
    if labels:
        values["labels"] = tuple(labels)
    return SourceFacts({option: Fact(value, origin) for option, value in values.items()})


def open_torchvision(name: str, weights: Path | None) -> LibraryNetwork:
    """Return a network of torchvision.models with a file of weights.

    Torchvision's own weights are recognised by the file's content. Of others, the transforms of the network's default
    weights are taken if all of its weights have the same.
    """
    require_library("torchvision")
    import torchvision
    from torchvision import models

    if name not in models.list_models(module=models):
        close = difflib.get_close_matches(name, models.list_models(module=models), n=1)
        raise UsageError(
            f"torchvision has no classification network {name!r}",
            f"did you mean torchvision:{close[0]}?" if close else "",
        )
    if name in _NORMALISES:
        raise UsageError(
            f"torchvision:{name} normalises pictures by itself, or not, as its weights were trained",
            "write a function that returns the network with its transform_input",
        )
    if weights is None:
        raise UsageError(
            f"torchvision:{name} has no trained weights, and nothing is downloaded",
            "name a file of weights: --weights FILE",
        )
    known = list(models.get_model_weights(name))
    own = next((one for one in known if _is_file_of(one, weights)), None)
    taken = own or models.get_model_weights(name).DEFAULT
    facts = torchvision_facts(taken.transforms(), f"torchvision's {taken}", own.meta["categories"] if own else ())
    unsure = (
        _unsure(name, known, weights) if own is None and len({str(one.transforms()) for one in known}) > 1 else None
    )
    if unsure is not None:
        facts = facts.merged(SourceFacts({}, (unsure,)))
    make = partial(make_with_weights, partial(models.get_model, name, weights=None), weights)
    return LibraryNetwork(
        facts, f"{name} torchvision {torchvision.__version__}", make, partial(_make_transform, taken, unsure)
    )


def _is_file_of(own: Any, weights: Path) -> bool:
    """Return whether a file is that of torchvision's own weights, whose name ends with the beginning of its sha256."""
    begins = own.url.rpartition("-")[2].partition(".")[0]
    return weights.is_file() and sha256(weights.read_bytes()).hexdigest().startswith(begins)


def _unsure(name: str, known: Sequence[Any], weights: Path) -> Unsupported:
    sizes = ", ".join(f"{one.name}: {one.transforms().resize_size[0]}" for one in known)
    return Unsupported(
        f"{weights.name} is no file of torchvision's own, and its weights for {name} have several transforms",
        f"give resize as it was trained ({sizes})",
        GEOMETRY,
    )


def _make_transform(taken: Any, unsure: Unsupported | None) -> Transform:
    if unsure is not None:
        raise UsageError(unsure.what, "compare with your own function: --against package.module:function")
    transform: Transform = taken.transforms()
    return transform
