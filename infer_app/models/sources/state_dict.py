"""Say of a file of weights, which has no code, what network it belongs to and what would take it."""

from __future__ import annotations

from collections.abc import Sequence

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "ema")

# What starts the name of a tensor in the networks of each library; the first that is found names it.
_FAMILIES = (
    ("_conv_stem.", "efficientnet_pytorch's or efficientnet_lite_pytorch's EfficientNet"),
    ("conv_stem.", "a timm EfficientNet or MobileNet"),
    ("patch_embed.", "a timm vision transformer"),
    ("stem.", "a timm network"),
    ("stages.", "a timm network"),
    ("conv_proj.", "a torchvision vision transformer"),
    ("features.", "a torchvision network such as MobileNet, EfficientNet or ConvNeXt"),
    ("layer1.", "a torchvision or timm ResNet"),
    ("model.0.", "an Ultralytics network"),
    ("vit.", "a Hugging Face vision transformer"),
    ("resnet.", "a Hugging Face ResNet"),
    ("convnext.", "a Hugging Face ConvNeXt"),
)


def describe_weights(keys: Sequence[str]) -> str:
    """Return what a state dict with these keys is: `a state dict of 161 tensors, of a torchvision or timm ResNet`."""
    family = next((what for prefix, what in _FAMILIES if any(key.startswith(prefix) for key in keys)), None)
    named = f", by its keys of {family}" if family else f", the first is {keys[0]}" if keys else ""
    return f"a state dict of {len(keys)} tensors{named}"
