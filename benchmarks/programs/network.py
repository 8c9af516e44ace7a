"""The TorchScript file as a function of a batch, prepared in one of several ways."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from pixels import MEAN, SIZE, STD
from torch import Tensor

TOP_K = 5
WARM_UP_RUNS = 3

warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)

_READY = {
    "saved": lambda module: module,
    "frozen": torch.jit.freeze,
    "fused": torch.jit.freeze,
    "optimized": lambda module: torch.jit.optimize_for_inference(torch.jit.freeze(module)),
}
# The file as it is; frozen; frozen with oneDNN's fusion; torch's optimize_for_inference.
READY = tuple(_READY)


def open_network(path: str, ready: str, batch_size: int, threads: int) -> Callable[[Tensor], Tensor]:
    """Return a function from batch to scores; a batch is (n, 3, SIZE, SIZE) float32 or raw (n, SIZE, SIZE, 3) uint8."""
    if threads:
        torch.set_num_threads(threads)
    if ready == "fused":
        torch.jit.enable_onednn_fusion(True)
    module = _READY[ready](torch.jit.load(path).eval())

    @torch.inference_mode()
    def predict(batch: Tensor) -> Tensor:
        num_images = len(batch)
        if ready != "saved" and num_images < batch_size:  # a new shape would be compiled again
            batch = torch.cat([batch, batch.new_zeros(batch_size - num_images, *batch.shape[1:])])
        if batch.dtype == torch.uint8:
            batch = batch.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.channels_last)
            batch = batch.sub_(MEAN).div_(STD)
        return module(batch)[:num_images]

    if ready != "saved":
        for _ in range(WARM_UP_RUNS):  # the first run is profiled, the second one compiled
            predict(torch.zeros(batch_size, SIZE, SIZE, 3, dtype=torch.uint8))
    return predict


def best_classes(scores: Tensor) -> tuple[list[list[int]], list[list[float]]]:
    """Return the TOP_K classes of each image and their probabilities, best first."""
    top = scores.softmax(dim=1).topk(TOP_K, dim=1)
    return top.indices.tolist(), top.values.tolist()
