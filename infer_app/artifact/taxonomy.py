"""Groups of labels, and which labels are allowed, as a user's files give them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import UsageError, os_errors_as

COLUMNS = ("label", "parent")
HINT = "a CSV file with the columns label and parent, such as lion,felidae; without a parent: a root"


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """The parent of each label or group that has one."""

    parents: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Taxonomy:
        """Read a CSV file with the columns label and parent; others are ignored. Raises UsageError."""
        rows = csv.DictReader(io.StringIO(_text(path), newline=""), skipinitialspace=True)
        if missing := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
            raise UsageError(f"{path} has no column {missing[0]}", HINT)
        parents: dict[str, str] = {}
        for row in rows:
            label, parent = ((row[name] or "").strip(" \t") for name in COLUMNS)
            where = f"{path}, line {rows.line_num}"
            _check(label, where)
            if not parent:
                continue
            _check(parent, where)
            if parents.setdefault(label, parent) != parent:
                raise UsageError(f"{where}: {label!r} has two parents, {parents[label]!r} and {parent!r}", HINT)
        found = cls(parents)
        for label in parents:
            found.chain(label, path)
        return found

    def chain(self, label: str, path: Path | None = None) -> tuple[str, ...]:
        """Return the label's groups from the root down, and itself. Raises UsageError for a cycle, naming the file."""
        chain = [label]
        while (parent := self.parents.get(chain[-1])) is not None:
            if parent in chain:
                cycle = " > ".join(map(repr, reversed([*chain[chain.index(parent) :], parent])))
                raise UsageError(f"{path}: {cycle} is a cycle", "no group may belong to itself")
            chain.append(parent)
        return tuple(reversed(chain))

    @property
    def groups(self) -> set[str]:
        return set(self.parents.values())


def read_allowed(path: Path) -> set[str]:
    """Read labels, one a line. Raises UsageError."""
    allowed = {line.removesuffix("\r").strip(" \t") for line in _text(path).split("\n")} - {""}
    for label in allowed:
        _check(label, str(path))
    if not allowed:
        raise UsageError(f"{path} has no labels: nothing would be allowed", "a file with one allowed label a line")
    return allowed


def group_labels(taxonomy: Taxonomy, allowed: set[str] | None, known: set[str]) -> dict[str, tuple[str, ...] | None]:
    """Return the groups of each label from the root down to itself; None: it is not allowed, as all but `allowed` are.

    A group is only a group unless it is one of the known labels. An allowed label without groups is left out.
    """
    labels = taxonomy.parents.keys() - taxonomy.groups | taxonomy.parents.keys() & known
    found: dict[str, tuple[str, ...] | None] = {label: taxonomy.chain(label) for label in sorted(labels)}
    barred = set() if allowed is None else (known | labels) - allowed
    return found | dict.fromkeys(sorted(barred))


def _text(path: Path) -> str:
    with os_errors_as(UsageError, f"{path} can't be read", "name a text file in UTF-8"):
        return decode_text(path.read_bytes(), str(path))


def _check(label: str, where: str) -> None:
    if not label:
        raise UsageError(f"{where}: a label is empty", HINT)
    if "\0" in label:  # PostgreSQL can't store it
        raise UsageError(f"{where}: {label[:40]!r} has a NUL character", "save it as UTF-8, not as UTF-16")
