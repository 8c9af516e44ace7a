"""Head of CenterFace: a heat map of centres, with sizes and offsets, one cell for 4 x 4 pixels."""

import numpy as np


def head(heat, sizes, offsets):  # (batch, 1 or 2, rows, columns)
    rows, columns = np.mgrid[: heat.shape[2], : heat.shape[3]]
    x, y = 4 * (columns + offsets[:, 1] + 0.5), 4 * (rows + offsets[:, 0] + 0.5)
    height, width = 4 * np.exp(sizes[:, 0]), 4 * np.exp(sizes[:, 1])
    corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    found = np.stack([*corners, heat[:, 0].clip(0, 1), np.zeros_like(x)], -1)
    return list(found.reshape(len(heat), -1, 6))
