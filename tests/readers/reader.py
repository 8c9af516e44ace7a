"""What runs in a reader's own environment, without infer_app: `python -m tests.readers.reader PROGRAM EXPORTS`.

The program's `read` compares what it reads with the rows, and returns what was the same.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.networks.answers import load_program


class Exports:
    """The exports of the project, and what its rows say."""

    def __init__(self, folder: Path, reader: str) -> None:
        self.folder, self._reader = folder, reader
        self.photos = folder / "project" / "photos"
        self.images: list[dict[str, Any]] = json.loads((folder / "images.json").read_text())
        self.predicted = [image for image in self.images if not image["rejected"]]

    def scratch(self, name: str) -> Path:
        """Return a new folder for what a reader writes."""
        made = self.folder / "scratch" / self._reader / name
        made.mkdir(parents=True)
        return made

    def boxes(self, *keys: str, of: str = "detector", decimals: int = 6) -> dict[str, list[tuple[Any, ...]]]:
        """Return of each predicted picture its objects, sorted: the values of some keys, then the box in pixels.

        Those of `species` are the ones that it took.
        """
        found: dict[str, list[tuple[Any, ...]]] = {}
        for image in self.predicted:
            width, height = image["size"]
            found[image["path"]] = rounded(
                (
                    (*(one[key] for key in keys), x * width, y * height, w * width, h * height)
                    for one in image["objects"]
                    if of == "detector" or one["labels"]
                    for x, y, w, h in [one["box"]]
                ),
                decimals,
            )
        return found

    def by_event(self) -> dict[int, list[dict[str, Any]]]:
        """Return the pictures of each event, in the order of their times."""
        found: dict[int, list[dict[str, Any]]] = {}
        for image in sorted(self.images, key=lambda one: one["taken_at"]):
            found.setdefault(image["event"], []).append(image)
        return found

    @property
    def figure(self) -> str:
        return f"{len(self.predicted)} images, {sum(len(image['objects']) for image in self.predicted)} objects"


def rounded(rows: Iterable[Iterable[Any]], decimals: int = 6) -> list[tuple[Any, ...]]:
    """Return rows in order, with numbers of Python's that are rounded."""
    plain = [[value.item() if hasattr(value, "item") else value for value in row] for row in rows]
    found = (tuple(round(one, decimals) if isinstance(one, float) else one for one in row) for row in plain)
    return sorted(found, key=repr)


def taken(image: dict[str, Any]) -> str:
    """Return when a picture was taken, with the offset that it states, else that of the project's zone."""
    offset = timezone(timedelta(seconds=image["offset"] or 3600))
    return datetime.fromisoformat(image["taken_at"]).replace(tzinfo=offset).isoformat()


def same(found: object, expected: object) -> None:
    """Raise AssertionError that shows where they differ."""
    if found == expected:
        return
    if isinstance(found, dict) and isinstance(expected, dict):
        found, expected = sorted(found.items()), sorted(expected.items())
    if isinstance(found, list) and isinstance(expected, list):
        pairs = [pair for pair in zip_longest(found, expected) if pair[0] != pair[1]][:3]
        found, expected = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    raise AssertionError(f"read\n{found}\nand not\n{expected}")


def refusal(function: Callable[..., object], *arguments: object) -> type[Exception] | None:
    """Return what a function raises."""
    try:
        function(*arguments)
    except Exception as error:
        return type(error)
    return None


def main(program: str, exports: str) -> None:
    module = load_program(Path(program))
    sys.stdout, results = sys.stderr, sys.stdout  # programs print
    os.chdir(exports)
    print(module.read(Exports(Path(exports), module.__name__)), file=results)


if __name__ == "__main__":
    main(*sys.argv[1:])
