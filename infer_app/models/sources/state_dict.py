"""Say of a file of weights, which has no code, what network it belongs to and what would take it."""

from collections.abc import Mapping, Sequence

from torch import Tensor

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
