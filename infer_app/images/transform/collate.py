"""Collate samples into a batch: good samples take rows in order, broken ones take none."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from infer_app.domain import Batch, Broken, Sample


def collate(samples: Iterable[Sample | Broken], buffer: Tensor) -> Batch:
    """Copy good pixels into the first rows of `buffer`, (N, H, W, 3) uint8; `pixels` of the batch is a view of it.

    If all samples are broken, the batch is valid and has n = 0. Raises ValueError for more good samples than rows.
    """
    good: list[Sample] = []
    broken: list[Broken] = []
    for sample in samples:
        if isinstance(sample, Broken):
            broken.append(sample)
            continue
        if len(good) == len(buffer):
            raise ValueError(f"more samples than the buffer's {len(buffer)} rows")
        buffer[len(good)] = _checked(sample, buffer)
        good.append(sample)
    return Batch(pixels=buffer[: len(good)], samples=tuple(good), broken=tuple(broken))


def _checked(sample: Sample, buffer: Tensor) -> Tensor:
    """Return the sample's pixels. Raises ValueError for another shape or dtype, which a copy would silently convert."""
    pixels = sample.pixels
    if pixels.shape != buffer.shape[1:] or pixels.dtype != buffer.dtype:
        raise ValueError(
            f"image {sample.ref.image_id}: {pixels.dtype} {tuple(pixels.shape)}, "
            f"the batch takes {buffer.dtype} {tuple(buffer.shape[1:])}"
        )
    return pixels
