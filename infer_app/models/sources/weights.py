"""Read a file of weights, which has no code, and load it into a module without leaving a tensor out."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from infer_app.errors import ModelError, UsageError, first_line
from infer_app.models.sources.state_dict import WRAPPERS

_NUM_NAMED = 3  # missing or unexpected keys that an error names


def read_weights(path: Path) -> Mapping[str, Any]:
    """Return the dictionary of a state dict or .safetensors; no code of the file's is run.

    Raises UsageError if it can't be read, and ModelError if it holds something else.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror or error}", "--weights takes a state dict or .safetensors"
        ) from error
    except (pickle.UnpicklingError, RuntimeError, EOFError, SafetensorError, ValueError) as error:
        raise ModelError(
            f"{path}: no weights can be read: {first_line(error)}",
            "save them on their own: torch.save(model.state_dict(), FILE), or as safetensors",
        ) from error
    if not isinstance(state, dict):
        raise ModelError(f"{path} holds a {type(state).__name__}", "save torch.save(model.state_dict(), FILE)")
    return state


def load_weights(module: nn.Module, path: Path) -> None:
    """Load all weights of a file into a module. Raises ModelError unless they are the module's, name by name."""
    state = read_weights(path)
    expected = module.state_dict().keys()
    missing, unexpected = sorted(expected - state.keys()), sorted(state.keys() - expected)
    if missing or unexpected:
        raise ModelError(
            f"{path} is of another module: "
            + "; ".join(filter(None, [_named("missing", missing), _named("unexpected", unexpected)])),
            _hint_for(state),
        )
    try:
        module.load_state_dict(state, strict=True)
    except RuntimeError as error:
        shapes = str(error).splitlines()[-1].strip()
        raise ModelError(f"{path} is of another module: {shapes}", "check the callable's number of classes") from error


def make_with_weights(make: Callable[..., nn.Module], path: Path) -> nn.Module:
    """Return the module of a function that takes `num_classes`, with as many classes as the weights have.

    The last layers are those whose first dimension alone differs from that of the module without arguments.
    """
    module, state = make(), read_weights(path)
    rows = {
        len(state[name])
        for name, tensor in module.state_dict().items()
        if name in state and state[name].shape != tensor.shape and state[name].shape[1:] == tensor.shape[1:]
    }
    if len(rows) == 1:
        module = make(num_classes=rows.pop())
    load_weights(module, path)
    return module


def _named(what: str, keys: list[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _NUM_NAMED} more" if len(keys) > _NUM_NAMED else ""
    return f"{what} {', '.join(keys[:_NUM_NAMED])}{more}"


def _hint_for(state: Mapping[str, Any]) -> str:
    for key in WRAPPERS:
        if isinstance(state.get(key), dict):
            return f"it is a checkpoint: save its {key!r} entry on its own"
    if state and all(str(key).startswith("module.") for key in state):
        return "the keys start with 'module.' (DataParallel): save model.module.state_dict()"
    return "give the network that the weights were trained with"
