"""Photos made in code, and where real ones lie."""

import io
import os
from pathlib import Path

from PIL import Image

from infer_app.base.domain import ImageRef

DATA = Path(os.environ.get("TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")  # photos/


def jpeg(width: int = 32, height: int = 24, color: tuple[int, int, int] = (200, 60, 30)) -> bytes:
    """A small photo of one colour with a gradient across it."""
    picture = Image.linear_gradient("L").resize((width, height)).convert("RGB")
    picture = Image.blend(picture, Image.new("RGB", (width, height), color), 0.7)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def save_colored(folder: Path, count: int) -> list[ImageRef]:
    """Save photos that are red, green and blue in turn, no two of a size, and return their refs."""
    refs = [ImageRef(str(i), str(folder / f"{i}.jpg")) for i in range(count)]
    for i, ref in enumerate(refs):
        color = tuple(200 - i if channel == i % 3 else 30 for channel in range(3))
        Path(ref.location).write_bytes(jpeg(40 + i, 30, color))
    return refs
