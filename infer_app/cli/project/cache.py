"""`infer cache`: shows and clears the cache of transformed pixels."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infer_app.cli.terminal.output import show_table
from infer_app.errors import UsageError
from infer_app.images.cache import pixel_cache
from infer_app.images.cache.pixel_cache import Kept
from infer_app.plurals import counted
from infer_app.settings.load import load_settings

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def show_status(as_json: bool, config: Path | None) -> None:
    """Show the number of images and bytes for each recipe."""
    loaded = load_settings(config)
    folder, max_bytes = loaded.cache_folder, int(loaded.cache.max_size)
    try:
        kept, on_disk = pixel_cache.survey(folder), pixel_cache.bytes_on_disk(folder)
    except OSError as error:
        raise UsageError(f"can't read {folder}: {error.strerror}") from None
    if as_json:
        recipes = [asdict(one) | {"size": one.size.to_json(), "oldest": one.oldest.isoformat()} for one in kept]
        head = {"folder": str(folder), "enabled": max_bytes > 0, "bytes": on_disk, "max_bytes": max_bytes}
        print(json.dumps(head | {"recipes": recipes}))
        return
    if kept:
        cells = [
            (_describe(one), one.recipe_id, f"{one.images:,}", _size(one.bytes), f"{one.oldest:%Y-%m-%d %H:%M}")
            for one in kept
        ]
        show_table(("recipe", "id", "images", "size", "oldest (UTC)"), cells)
    bound = f"at most {_size(max_bytes)}" if max_bytes else 'off: [cache] max_size = "10GB" turns it on'
    print(f"{folder}: {counted(sum(one.images for one in kept), 'image')}, {_size(on_disk)} on disk; {bound}")


def clear(as_json: bool, config: Path | None) -> None:
    folder = load_settings(config).cache_folder
    try:
        removed = pixel_cache.clear(folder)
    except OSError as error:
        raise UsageError(f"can't remove {error.filename or folder}: {error.strerror}") from None
    if as_json:
        print(json.dumps({"folder": str(folder), **asdict(removed)}))
        return
    print(f"{folder}: removed {counted(removed.images, 'image')}, {_size(removed.bytes)} on disk")


def _describe(kept: Kept) -> str:
    """Return a description such as `resize-crop to 224, resize 256, bicubic`."""
    recipe: dict[str, Any] = kept.recipe.get("recipe", {})
    parts = [f"{recipe.get('kind', 'unknown')} to {kept.size}"]
    parts += [f"{name} {recipe[name]}" for name in ("resize", "crop") if recipe.get(name) is not None]
    parts += [f"{name} {recipe[name]}" for name in ("depth", "channels", "crop_rounding") if name in recipe]
    parts += [str(kept.recipe.get("preprocess") or recipe.get("interpolation", ""))]
    return ", ".join(part for part in parts if part)


def _size(num_bytes: int) -> str:
    """Return a size in decimal units, as in the setting `max_size`."""
    power = min(len(_UNITS) - 1, max(0, len(str(num_bytes)) - 1) // 3)
    return f"{num_bytes / 1000**power:.{min(power, 1)}f} {_UNITS[power]}"
