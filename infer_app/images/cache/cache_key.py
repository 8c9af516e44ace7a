"""All that an image's pixels depend on besides its content: two keys that are equal make equal pixels."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from infer_app.images.decode.decoder import decoder_name, has_turbo
from infer_app.recipe import Recipe


@dataclass(frozen=True, slots=True)
class CacheKey:
    """The identity of a recipe and of the code and libraries that carry it out on this machine."""

    recipe: Recipe
    max_pixels: int  # a picture above it is rejected, and must be so with a cache too
    preprocess: str | None = None  # a custom recipe's function
    preprocess_sha256: str | None = None  # of the file that holds it; not of what it imports
    made_by: str = ""  # code, libraries and versions: decoders differ by some levels

    @classmethod
    def of(
        cls, recipe: Recipe, max_pixels: int, preprocess: str | None = None, preprocess_sha256: str | None = None
    ) -> CacheKey:
        """Return the key of what this process would make."""
        if recipe.kind == "custom" and not (preprocess and preprocess_sha256):
            raise ValueError("a custom recipe's pixels depend on its function")
        return cls(recipe, max_pixels, preprocess, preprocess_sha256, makers())

    @property
    def recipe_id(self) -> str:
        """16 hex digits."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"recipe": self.recipe.to_json()}, sort_keys=True)


@cache
def makers() -> str:
    """Name what makes pixels here: decoders, the library that resizes, and our own code."""
    parts = [decoder_name(), f"torch {metadata.version('torch')}", f"code {_code_of(Path(__file__).parents[1])}"]
    if has_turbo():
        parts.insert(1, f"libturbojpeg {_loaded_turbo()}")
    return ", ".join(parts)


def _code_of(folder: Path) -> str:
    """Hash all code of the images package, so that nobody has to remember which files make pixels."""
    code = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        code.update(path.read_bytes())
    return code.hexdigest()[:16]


def _loaded_turbo() -> str:
    """Return the sha256 of the library this process loaded, since it does not tell its version."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    line = next((line for line in lines if "libturbojpeg" in line), "")
    try:
        content = Path(line.split(maxsplit=5)[-1]).read_bytes()
    except (OSError, IndexError):
        content = line.encode()  # replaced while we run: a key that no other process has is safe
    return hashlib.sha256(content).hexdigest()[:16]
