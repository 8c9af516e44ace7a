"""Convert a model to half precision for a GPU: uint8 pixels in, float32 numbers out, fp16 or bf16 in between."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from infer_app.errors import ModelError
from infer_app.models.artifact.specs import InputSpec

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class HalfModel(nn.Module):
    """A source in half precision that takes (n, H, W, 3) uint8 and returns (n, D) float32.

    Pixels become float32 before anything else, because TensorRT accepts uint8 only as an input. Normalising in float32
    loses nothing; only the source itself runs in half precision.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, source: nn.Module, spec: InputSpec, dtype: torch.dtype) -> None:
        super().__init__()
        halved: Any = source.to(dtype)
        self.source = halved.to(memory_format=torch.channels_last)  # only the weights: pixels have it already
        self.dtype = dtype
        self.takes_pixels = spec.kind == "uint8-nhwc"
        self.register_buffer("mean", torch.tensor(spec.mean, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(spec.std, dtype=torch.float64).mul(255).float().view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        if self.takes_pixels:
            return _rows(self.source(pixels))
        pictures = pixels.to(torch.float32).permute(0, 3, 1, 2)
        return _rows(self.source(((pictures - self.mean) / self.std).to(self.dtype)))


def make_half(source: nn.Module, spec: InputSpec, precision: str, pixels: Tensor) -> HalfModel:
    """Convert a source to `precision` (fp16 or bf16) and try it on (n, H, W, 3) `pixels`, on their device.

    The source itself is changed. Raises ModelError if it mixes precisions: what it casts inside can't be changed from
    outside.
    """
    model = HalfModel(source, spec, DTYPES[precision]).eval().to(pixels.device)
    try:
        with torch.no_grad():  # not inference_mode, whose tensors can't be exported if the module keeps one
            model(pixels)
    except Exception as error:  # the user's code runs here
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(
            f"the module can't run in {precision}: {lines[-1][:300]}",
            "if it casts to float32 or makes tensors of a fixed type, use x.to(self.weight.dtype) there",
        ) from error
    return model


def _rows(output: Tensor) -> Tensor:
    """Convert to (n, D) float32 with as few operators as possible, because TensorRT must support each of them."""
    if output.dim() == 1:
        output = output.unsqueeze(1)
    return (output.flatten(1) if output.dim() > 2 else output).float()
