"""Head of a PicoDet as PaddleDetection exports it: at each stride the scores of cells, and distances to their sides."""

import numpy as np

STRIDES = (8, 16, 32, 64)


def head(*outputs, size):  # scores (batch, cells, classes) of each stride, then distances (batch, cells, 4 * bins)
    half = len(outputs) // 2
    strides = zip(STRIDES, outputs[:half], outputs[half:], strict=True)
    return list(np.concatenate([boxes(*one, size) for one in strides], 1))


def boxes(stride, scores, distances, size):
    rows, columns = np.mgrid[: -(-size[1] // stride), : -(-size[0] // stride)]
    x, y = (stride * (cells.ravel() + 0.5) for cells in (columns, rows))
    bins = np.exp(distances.reshape(*distances.shape[:2], 4, -1))
    left, top, right, bottom = np.moveaxis(stride * bins @ np.arange(bins.shape[-1]) / bins.sum(-1), 2, 0)
    corners = [x - left, y - top, x + right, y + bottom]
    return np.stack([*corners, scores.max(2), scores.argmax(2)], -1)
