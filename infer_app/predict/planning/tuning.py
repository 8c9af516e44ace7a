"""Store what was measured of a model on a host: which variant, batch size and layout of processes are fast.

It is stored beside the model as tuning/<host>.json and is not covered by the model's checksums: if it is lost, it is
measured again in a few seconds. A host is its processor and the number of usable cores, so that a container, whose name
changes with each run, finds the measurements of the run before.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from infer_app.artifact.artifact import TUNING_FOLDER
from infer_app.base.atomic_file import replace_file
from infer_app.base.packages import installed_version
from infer_app.base.plurals import counted

_LIBRARIES = ("torch", "openvino")

# Bounds of what a file may contain; a damaged file is measured again.
Count = Annotated[int, Field(ge=1, le=1024)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a variant on one thread of one core."""

    batch_size: Count
    ms_per_image: Amount  # CPU milliseconds


@dataclass(frozen=True, slots=True)
class Layout:
    """A number of processes and the number of threads of each."""

    workers: Count
    threads: Count
    images_per_second: float | None = None  # steady rate on the golden images; None if it was not measured


@dataclass(frozen=True, slots=True)
class Tuning:
    """All measurements of one model on one host."""

    host: str
    libraries: dict[str, str]  # measured versions; with other ones, everything is measured again
    measured_at: str  # ISO 8601, UTC
    speeds: dict[str, Speed] = field(default_factory=dict)  # by variant
    layouts: dict[str, tuple[Layout, ...]] = field(default_factory=dict)  # by variant, the best first
    worker_bytes: Annotated[int, Field(ge=0)] | None = None  # private memory of one worker

    def layout_of(self, variant: str) -> Layout | None:
        return next(iter(self.layouts.get(variant, ())), None)

    def to_json(self) -> str:
        return _JSON.dump_json(self, indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str) -> Tuning:
        """Parse a file's text. Raises ValidationError if it is not valid."""
        return _JSON.validate_json(text)


_JSON = TypeAdapter(Tuning)


def new_tuning(num_cores: int, speeds: Mapping[str, Speed]) -> Tuning:
    """Return measurements of this host, with the present time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Tuning(host_name(num_cores), library_versions(), now, dict(speeds))


def load_tuning(artifact_folder: Path, num_cores: int) -> Tuning | None:
    """Load this host's measurements; return None if there are none or they are of other library versions."""
    try:
        tuning = Tuning.from_json(_path(artifact_folder, num_cores).read_text())
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
    return tuning if tuning.libraries == library_versions() else None


def load_all(artifact_folder: Path) -> list[Tuning]:
    """Load the measurements of every host, for `infer model show`; skip files that are not valid."""
    found = []
    for path in sorted(artifact_folder.glob(f"{TUNING_FOLDER}/*.json")):
        with suppress(OSError, UnicodeDecodeError, ValidationError):
            found.append(Tuning.from_json(path.read_text()))
    return found


def save_tuning(artifact_folder: Path, num_cores: int, tuning: Tuning) -> bool:
    """Save the measurements and return whether that was possible: a model's folder may be read-only."""
    path = _path(artifact_folder, num_cores)
    try:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, tuning.to_json().encode())
    except OSError:
        return False
    return True


def host_name(num_cores: int) -> str:
    """Return the host's name, for example `AMD EPYC, 2 cores`."""
    return f"{_processor()}, {counted(num_cores, 'core')}"


def library_versions() -> dict[str, str]:
    """Return the versions of the installed libraries that run models, without importing them."""
    return {name: found for name in _LIBRARIES if (found := installed_version(name))}


def _path(artifact_folder: Path, num_cores: int) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", host_name(num_cores).lower()).strip("-")
    return artifact_folder / TUNING_FOLDER / f"{slug}.json"


def _processor() -> str:
    """Return the processor's model and its best vector instructions.

    Both are needed: a virtual machine may hide instructions of the same model.
    """
    with suppress(OSError):
        pairs = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        lines = {key.strip(): value.strip() for key, _, value in pairs}
        instructions = [
            name for name in ("amx_tile", "avx512_vnni", "avx512f", "avx2") if name in lines.get("flags", "")
        ]
        return " ".join([lines.get("model name", platform.machine()), *instructions[:1]])
    return platform.processor() or platform.machine()
