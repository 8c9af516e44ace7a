"""An encoded image as it was read, wherever it lies."""

from __future__ import annotations

from dataclasses import dataclass

from infer_app.domain import FileFacts, Reason
from infer_app.images.read.bad_image import BadImage


@dataclass(frozen=True, slots=True)
class ImageBytes:
    """An encoded image as it lies in its file."""

    data: bytes
    facts: FileFacts


def too_large(size: int, max_bytes: int, facts: FileFacts | None = None) -> BadImage:
    detail = f"{size:,} bytes, at most {max_bytes:,} are read"
    return BadImage(Reason.TOO_LARGE_BYTES, detail, facts or FileFacts(size=size))
