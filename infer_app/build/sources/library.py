"""Networks of other libraries: their modules, what they say about their use, and their own transforms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from infer_app.base.errors import ModelError, UsageError
from infer_app.build.sources.source_facts import SourceFacts

if TYPE_CHECKING:
    from torch import Tensor, nn

CONFIG = "config.json"

Transform: TypeAlias = "Callable[[object], Tensor]"  # of an RGB PIL.Image, to (3, H, W)


@dataclass(frozen=True, slots=True)
class LibraryNetwork:
    """A network that a library makes."""

    facts: SourceFacts
    definition: str  # the network but for its weights: the library, its version, the architecture and its arguments
    make: Callable[[], nn.Module]  # with its weights; float NCHW in, one tensor out
    make_transform: Callable[[], Transform]  # the library's own
    onnx: Path | None = None  # the network itself, in place of the module


def read_config(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises UsageError or ModelError."""
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "it must be readable") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON: {error}", "fetch or export it again") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} is not a JSON object", "fetch or export it again")
    return config


def names_of(labels: object) -> tuple[str, ...]:
    """Return the labels of ["cat", "dog"] or {"0": "cat", "1": "dog"}, none if the keys are not 0, 1, 2, …."""
    if isinstance(labels, Mapping) and sorted(map(str, labels)) == sorted(map(str, range(len(labels)))):
        labels = [labels[key] for key in sorted(labels, key=int)]
    names = tuple(map(str, labels)) if isinstance(labels, list) else ()
    if broken := next((name for name in names if len(name.splitlines()) != 1), None):
        raise ModelError(f"the label {broken!r} is not one line", "give --labels FILE")
    return names


@contextmanager
def read_entries(where: Path | str) -> Iterator[None]:
    """Raise ModelError in place of what entries of other types than usual lead to."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
        raise ModelError(
            f"{where} has an entry that can't be read: {type(error).__name__}: {error}", "save the network again"
        ) from error


def as_text(values: Any) -> str:
    """Return a number or three as --mean and --std take them. Raises ModelError if they are none."""
    values = [values] * 3 if isinstance(values, int | float) else values
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise ModelError(f"{values!r} are not three numbers", "give --mean and --std yourself") from None
    return f"{red!r},{green!r},{blue!r}"
