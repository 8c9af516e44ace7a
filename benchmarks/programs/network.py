"""The TorchScript file as a function of a batch, prepared in one of several ways."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from pixels import CLASSIFIER, Input
from torch import Tensor

TOP_K = 5
MIN_SCORE, NMS, MAX_OBJECTS = 0.05, 0.45, 300  # of a detector's objects
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


def open_network(
    path: str, ready: str, batch_size: int, threads: int, taken: Input = CLASSIFIER
) -> Callable[[Tensor], Tensor]:
    """Return a function from batch to scores; a batch is (n, 3, size, size) float32 or raw (n, size, size, 3) uint8."""
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
            batch = batch.sub_(taken.mean).div_(taken.std)
        return module(batch)[:num_images]

    if ready != "saved":
        for _ in range(WARM_UP_RUNS):  # the first run is profiled, the second one compiled
            predict(torch.zeros(batch_size, taken.size, taken.size, 3, dtype=torch.uint8))
    return predict


def best_classes(scores: Tensor) -> tuple[list[list[int]], list[list[float]]]:
    """Return the TOP_K classes of each image and their probabilities, or those of a detector's objects, best first."""
    if scores.dim() == 3:
        found = [_objects(rows) for rows in scores]
        return [classes for classes, _ in found], [confidences for _, confidences in found]
    top = scores.softmax(dim=1).topk(TOP_K, dim=1)
    return top.indices.tolist(), top.values.tolist()


def _objects(rows: Tensor) -> tuple[list[int], list[float]]:
    """Return the objects of an image after non-maximum suppression; rows: (n, 5 + classes), centre x, y, width …."""
    import cv2

    scores, classes = (rows[:, 4:5] * rows[:, 5:]).max(1)
    likely = scores >= MIN_SCORE
    boxes, scores, classes = rows[likely, :4], scores[likely], classes[likely]
    boxes[:, :2] -= boxes[:, 2:] / 2
    if not len(boxes):
        return [], []
    found = cv2.dnn.NMSBoxesBatched(boxes.numpy(), scores.numpy(), classes.int().numpy(), MIN_SCORE, NMS)
    kept = torch.as_tensor(found).flatten()[:MAX_OBJECTS]
    return classes[kept].tolist(), scores[kept].tolist()
