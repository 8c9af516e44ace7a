"""Read a file of weights, which has no code, say what it is, and load it into a module without leaving a tensor out."""

import logging
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from infer_app.base.errors import ModelError, UsageError, first_line

log = logging.getLogger(__name__)

_NUM_NAMED = 3  # missing or unexpected keys that an error names
_PARALLEL = "module."  # what DataParallel and DistributedDataParallel put before each name
_NOT_SAVED = "num_batches_tracked"  # of BatchNorm before torch 0.4.1; torch then takes the module's own


def read_weights(path: Path) -> Mapping[str, object]:
    """Return the dictionary of a state dict or .safetensors; no code of the file's is run.

    Raises UsageError if it can't be read, and ModelError if it holds something else.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, pickle.UnpicklingError, RuntimeError, EOFError, SafetensorError, ValueError) as error:
        # torch raises one without a name for a file that is cut off, safetensors for one that is not there.
        if isinstance(error, OSError) and (error.filename or not path.is_file()):
            raise UsageError(
                f"{path}: {error.strerror or error}", "--weights takes a state dict or .safetensors"
            ) from error
        raise ModelError(
            f"{path}: no weights can be read: {first_line(error)}",
            "save them on their own: torch.save(model.state_dict(), FILE), or as safetensors",
        ) from error
    if not isinstance(state, dict):
        raise ModelError(f"{path} holds a {type(state).__name__}", "save torch.save(model.state_dict(), FILE)")
    return state


def load_weights(module: nn.Module, path: Path) -> None:
    """Load all weights of a file into a module, and log if they were taken out of a checkpoint or renamed.

    Raises ModelError unless they are the module's, name by name.
    """
    _load(module, _weights_for(module, path), path)


def make_with_weights(make: Callable[..., nn.Module], path: Path) -> nn.Module:
    """Return the module of a function that takes `num_classes`, with as many classes as the weights have.

    The last layers are those whose first dimension alone differs from that of the module without arguments.
    """
    module = make()
    state = _weights_for(module, path)
    rows = {
        len(state[name])
        for name, tensor in module.state_dict().items()
        if name in state and state[name].shape != tensor.shape and state[name].shape[1:] == tensor.shape[1:]
    }
    if len(rows) == 1:
        module = make(num_classes=rows.pop())
    _load(module, state, path)
    return module


def _weights_for(module: nn.Module, path: Path) -> Mapping[str, Any]:
    """Read weights: of a checkpoint its only state dict, and names without what training in parallel put before."""
    state = read_weights(path)
    if len(found := state_dicts_in(state)) == 1:
        ((key, state),) = found.items()
        log.warning("%s is a checkpoint: its entry %r is taken", path, key)
    is_parallel = all(str(key).startswith(_PARALLEL) for key in state)
    if state and is_parallel and not any(key.startswith(_PARALLEL) for key in module.state_dict()):
        state = {key.removeprefix(_PARALLEL): value for key, value in state.items()}
        log.warning("%s was saved by DataParallel: its names are taken without %r", path, _PARALLEL)
    return state


def _load(module: nn.Module, state: Mapping[str, object], path: Path) -> None:
    expected = module.state_dict().keys()
    missing = sorted(key for key in expected - state.keys() if not key.endswith(_NOT_SAVED))
    unexpected = sorted(map(str, state.keys() - expected))
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


def _named(what: str, keys: list[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _NUM_NAMED} more" if len(keys) > _NUM_NAMED else ""
    return f"{what} {', '.join(keys[:_NUM_NAMED])}{more}"


def _hint_for(state: Mapping[str, object]) -> str:
    if found := state_dicts_in(state):
        return f"it is a checkpoint of several networks: save one of {', '.join(map(repr, found))} on its own"
    return "give the network that the weights were trained with"


_TIMM, _TORCHVISION, _FUNCTION, _FOLDER = "timm:NETWORK", "torchvision:NETWORK", "package.module:function", "FOLDER"

# What starts the name of a tensor in the networks of each library, and the sources that take its weights. The first one
# found decides.
_FAMILIES = (
    ("_conv_stem.", "efficientnet_pytorch's or efficientnet_lite_pytorch's EfficientNet", [_FUNCTION]),
    ("conv_stem.", "a timm EfficientNet or MobileNet", [_TIMM]),
    ("patch_embed.", "a timm vision transformer", [_TIMM]),
    ("stem.", "a timm network", [_TIMM]),
    ("stages.", "a timm network", [_TIMM]),
    ("conv_proj.", "a torchvision vision transformer", [_TORCHVISION]),
    ("features.", "a torchvision network such as MobileNet, EfficientNet or ConvNeXt", [_TORCHVISION]),
    ("layer1.", "a torchvision or timm ResNet", [_TORCHVISION, _TIMM]),
    ("vit.", "a Hugging Face vision transformer", [_FOLDER]),
    ("resnet.", "a Hugging Face ResNet", [_FOLDER]),
    ("convnext.", "a Hugging Face ConvNeXt", [_FOLDER]),
)


def state_dicts_in(checkpoint: Mapping[str, object]) -> dict[str, Mapping[str, Tensor]]:
    """Return the entries of a checkpoint that are state dicts, by key; a state dict itself has none."""
    entries = {key: value for key, value in checkpoint.items() if isinstance(value, dict) and value}
    return {key: value for key, value in entries.items() if all(isinstance(one, Tensor) for one in value.values())}


def describe_weights(keys: Sequence[str], path: str) -> tuple[str, str]:
    """Return what a state dict with these keys is, and what to do with it.

    For example: `a state dict of 161 tensors, by its keys of a torchvision or timm ResNet`.
    """
    family = next((one for one in _FAMILIES if any(key.startswith(one[0]) for key in keys)), None)
    if family is None:
        named, sources = f", the first is {keys[0]}" if keys else "", [_FUNCTION]
    else:
        named, sources = f", by its keys of {family[1]}", family[2]
    what = f"a state dict of {len(keys)} tensors{named}"
    if sources == [_FOLDER]:
        hint = "keep it with its config.json and preprocessor_config.json in a folder, then "
        return what, hint + "`infer model build FOLDER --name NAME`"
    commands = [f"`infer model build {source} --weights {path} --name NAME`" for source in sources]
    if sources == [_FUNCTION]:
        return what, f"write a function that returns the network, then {commands[0]}"
    trained_by = ", by the library that it was trained with" if len(commands) > 1 else ""
    return what, f"{' or '.join(commands)}{trained_by}; NETWORK is its name there"
