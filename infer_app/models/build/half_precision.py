"""A model in half precision for a GPU: uint8 pixels in, float32 numbers out, fp16 or bf16 in between."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from infer_app.errors import ModelError
from infer_app.models.artifact.specs import InputSpec

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class HalfModel(nn.Module):
    """The source behind (n, H, W, 3) uint8, as (n, D) float32.

    Pixels become float32 before anything else: TensorRT takes uint8 as an input and nowhere behind it. Normalising in
    float32 loses nothing; only the source itself runs in half precision.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, source: nn.Module, spec: InputSpec, dtype: torch.dtype) -> None:
        super().__init__()
        halved: Any = source.to(dtype)
        self.source = halved.to(memory_format=torch.channels_last)  # of the weights; the pixels come so already
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
    """A source in `precision` (fp16 or bf16), tried on (n, H, W, 3) `pixels` where they are.

    The source itself is changed. Raises ModelError for one that mixes precisions, since what is cast inside it can't
    be told from here.
    """
    model = HalfModel(source, spec, DTYPES[precision]).eval().to(pixels.device)
    try:
        with torch.no_grad():  # not inference_mode: what a module keeps of a first run could not be exported then
            model(pixels)
    except Exception as error:  # the user's code runs here
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(
            f"the module can't run in {precision}: {told[-1][:300]}",
            "one that casts to float32 by itself, or makes tensors of a fixed type, must be told its type: "
            "use x.to(self.weight.dtype)",
        ) from error
    return model


def _rows(output: Tensor) -> Tensor:
    """(n, D) float32, by as few operators as can be: a plan must know each of them."""
    if output.dim() == 1:
        output = output.unsqueeze(1)
    return (output.flatten(1) if output.dim() > 2 else output).float()
