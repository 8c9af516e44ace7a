"""Hold what a model's file or a library says about a network's use, by the keys of a description."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from infer_app.base.errors import ModelError, UsageError
from infer_app.base.packages import find_fault
from infer_app.base.size import Size

if TYPE_CHECKING:
    from torch import Tensor, nn

CONFIG = "config.json"

Transform: TypeAlias = "Callable[[object], Tensor]"  # of an RGB PIL.Image, to (3, H, W)

# Keys that replace all that a file says of the geometry: one of them makes the file's resize meaningless.
GEOMETRY = frozenset({"recipe", "resize", "crop_pct", "preprocess"})
DETECTION = frozenset({"head", "nms", "min_score", "max_objects"})  # keys of a detector alone


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a file says: the value of a key, and where it was read."""

    value: Any  # as a description takes it; of labels, the names
    origin: str  # for example: metadata_props imgsz
    is_fixed: bool = False  # the network runs with no other value

    @property
    def shown(self) -> str:
        """Return the value, and of labels their number."""
        return str(self.value if not isinstance(self.value, tuple) or isinstance(self.value, Size) else len(self.value))

    def __str__(self) -> str:
        return f"{self.shown} ({self.origin})"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Something that a file asks for and that is not supported."""

    what: str
    hint: str
    unless: frozenset[str] = frozenset()  # keys by which the user decides it; one of them is enough


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """All that a file says, by key of a description."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    refusals: tuple[Unsupported, ...] = ()
    unused: tuple[str, ...] = ()  # entries that could be labels and are not understood

    def merged(self, more: SourceFacts) -> SourceFacts:
        """Return these facts with those of another part of the file. Raises UsageError if the two contradict."""
        for key, fact in self.facts.items():
            other = more.facts.get(key, fact)
            if other.value != fact.value:
                raise UsageError(
                    f"the file contradicts itself: {key} {fact}, {key} {other}",
                    "export it again; a network and its metadata of one export agree",
                )
        return SourceFacts({**more.facts, **self.facts}, self.refusals + more.refusals, self.unused + more.unused)

    def taken(self, given: Mapping[str, object]) -> dict[str, Fact]:
        """Return the facts that apply beside what the user states, by key.

        Raises UsageError for something that is not supported and for a value that the network can't run with.
        """
        if refused := self.undecided(given):
            raise UsageError(refused[0].what, refused[0].hint)
        for key, fact in self.facts.items():
            if fact.is_fixed and given.get(key, fact.value) != fact.value:
                raise UsageError(
                    f"{key} {given[key]} contradicts the file: {key} {fact}", f"leave {key} out, or export again"
                )
        replaced = set(given)
        if GEOMETRY & replaced:
            replaced |= GEOMETRY | {"centre", "pad", "place", "rounding"}
        if "preprocess" in replaced or given.get("decode") == "scaled":
            replaced.add("antialias")
        output = given.get("output", self.facts["output"].value if "output" in self.facts else "classification")
        if output != "classification":
            replaced |= {"threshold"} | (set() if output == "detection" else {"labels", "activation"})
        if output != "detection":
            replaced |= DETECTION
        return {key: fact for key, fact in self.facts.items() if key not in replaced}

    def undecided(self, given: Mapping[str, object]) -> list[Unsupported]:
        """Return what is not supported and not decided by what the user states."""
        return [refusal for refusal in self.refusals if not refusal.unless & given.keys()]


class FactCollector:
    """Collects what a source says, entry by entry."""

    def __init__(self, origin: str) -> None:
        self.facts: dict[str, Fact] = {}
        self._origin, self._refusals = origin, list[Unsupported]()

    def take(self, entry: str, **values: object) -> None:
        """Take what an entry says, by key of a description."""
        self.facts |= {key: Fact(value, f"{self._origin} {entry}".strip()) for key, value in values.items()}

    def refuse(self, what: str, hint: str, *unless: str) -> None:
        """Refuse what is not supported, unless the user states one of these keys."""
        self._refusals.append(Unsupported(what, hint, frozenset(unless)))

    def collected(self) -> SourceFacts:
        return SourceFacts(self.facts, tuple(self._refusals))


def describe_facts(taken: Mapping[str, Fact]) -> str:
    """Describe facts for the user who builds the model: `size 224 (input shape); labels 80 (names)`."""
    by_origin: dict[str, list[str]] = {}
    for key, fact in taken.items():
        by_origin.setdefault(fact.origin, []).append(f"{key} {fact.shown}")
    return "; ".join(f"{', '.join(said)} ({origin})" for origin, said in by_origin.items())


def three(values: Iterable[float]) -> str:
    """Return numbers of the 0-255 scale as mean and std take them; a single one is that of all channels."""
    numbers = [value / 255 for value in values]
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    return ",".join(f"{number:.10g}" for number in numbers)


@dataclass(frozen=True, slots=True)
class LibraryNetwork:
    """A network that a library makes."""

    facts: SourceFacts
    definition: str  # the network but for its weights: the library, its version, the architecture and its arguments
    make: Callable[[], nn.Module]  # with its weights; float NCHW in, one tensor out
    make_transform: Callable[[], Transform]  # the library's own
    onnx: Path | None = None  # the network itself, in place of the module


def require_library(name: str) -> None:
    """Raise ModelError unless a library can be imported, and torchvision too if it is there."""
    if fault := find_fault(name):
        raise ModelError(*fault)


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
    """Return a number or three as mean and std take them. Raises ModelError if they are none."""
    values = [values] * 3 if isinstance(values, int | float) else values
    try:
        red, green, blue = (float(value) for value in values)
    except (TypeError, ValueError):
        raise ModelError(f"{values!r} are not three numbers", "give mean and std yourself") from None
    return f"{red!r},{green!r},{blue!r}"
