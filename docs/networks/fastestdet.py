"""Head of FastestDet: in each cell an objectness, a box and the scores of classes."""

import numpy as np


def head(output, *, size):  # (batch, 5 + classes, rows, columns)
    rows, columns = np.mgrid[: output.shape[2], : output.shape[3]]
    x = size[0] * (columns + np.tanh(output[:, 1])) / output.shape[3]
    y = size[1] * (rows + np.tanh(output[:, 2])) / output.shape[2]
    width, height = (side / (1 + np.exp(-output[:, channel])) for side, channel in zip(size, (3, 4), strict=True))
    score = output[:, 0] ** 0.6 * output[:, 5:].max(1) ** 0.4
    corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    found = np.stack([*corners, score, output[:, 5:].argmax(1)], -1)
    return list(found.reshape(len(output), -1, 6))
