"""What was measured of a model on a host: which variant and batch size are fast here, which layout of processes.

Kept beside the model as tuning/<host>.json. It is a figure, not a definition: losing it costs a few seconds of
measuring, and the model's checksums don't cover it. A host is its processor and the cores that may be used, so that
a container, whose name changes every night, finds what was measured the night before.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from infer_app.atomic_file import replace_file
from infer_app.models.artifact.artifact import TUNING_FOLDER

_LIBRARIES = ("torch", "openvino")

# What a damaged file must not ask of a night: it is measured again instead.
Count = Annotated[int, Field(ge=1, le=1024)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Speed:
    """A variant on one thread of one core."""

    batch_size: Count
    ms_per_image: Amount  # CPU milliseconds


@dataclass(frozen=True, slots=True)
class Layout:
    """How the cores are used: so many processes with so many threads each."""

    workers: Count
    threads: Count
    images_per_second: float | None = None  # of the golden images, once running; None where it was not measured


@dataclass(frozen=True, slots=True)
class Tuning:
    """All that was measured of one model on one host."""

    host: str
    libraries: dict[str, str]  # versions that were measured; others are measured anew
    measured_at: str  # ISO 8601, UTC
    speeds: dict[str, Speed] = field(default_factory=dict)  # by variant
    layouts: dict[str, tuple[Layout, ...]] = field(default_factory=dict)  # by variant, the fastest first
    worker_bytes: Annotated[int, Field(ge=0)] | None = None  # of memory that one worker has for itself

    def layout_of(self, variant: str) -> Layout | None:
        return next(iter(self.layouts.get(variant, ())), None)

    def to_json(self) -> str:
        return _JSON.dump_json(self, indent=2).decode() + "\n"

    @classmethod
    def from_json(cls, text: str) -> Tuning:
        """Raises ValidationError for anything else."""
        return _JSON.validate_json(text)


_JSON = TypeAdapter(Tuning)


def new_tuning(num_cores: int, speeds: Mapping[str, Speed]) -> Tuning:
    """Of this host, as of now."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Tuning(host_name(num_cores), library_versions(), now, dict(speeds))


def load_tuning(artifact_folder: Path, num_cores: int) -> Tuning | None:
    """This host's, where there is one that still holds; None where it must be measured."""
    try:
        tuning = Tuning.from_json(_path(artifact_folder, num_cores).read_text())
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
    return tuning if tuning.libraries == library_versions() else None


def load_all(artifact_folder: Path) -> list[Tuning]:
    """Those of every host, for `infer model show`; what can't be read is left out."""
    found = []
    for path in sorted(artifact_folder.glob(f"{TUNING_FOLDER}/*.json")):
        with suppress(OSError, UnicodeDecodeError, ValidationError):
            found.append(Tuning.from_json(path.read_text()))
    return found


def save_tuning(artifact_folder: Path, num_cores: int, tuning: Tuning) -> bool:
    """Whether it could be kept: a model folder may be read-only."""
    path = _path(artifact_folder, num_cores)
    try:
        path.parent.mkdir(exist_ok=True)
        replace_file(path, tuning.to_json().encode())
    except OSError:
        return False
    return True


def host_name(num_cores: int) -> str:
    """`AMD EPYC, 2 cores`."""
    return f"{_processor()}, {num_cores} core{'s' * (num_cores != 1)}"


def library_versions() -> dict[str, str]:
    """Of what runs a model, where installed; read without importing it."""
    versions = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _path(artifact_folder: Path, num_cores: int) -> Path:
    slug = re.sub(r"[^a-z0-9]+", "-", host_name(num_cores).lower()).strip("-")
    return artifact_folder / TUNING_FOLDER / f"{slug}.json"


def _processor() -> str:
    """The processor's model and what it can do: a virtual machine may hide some of it."""
    with suppress(OSError):
        pairs = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
        lines = {key.strip(): value.strip() for key, _, value in pairs}
        skills = [name for name in ("avx512_vnni", "amx_tile", "avx512f", "avx2") if name in lines.get("flags", "")]
        return " ".join([lines.get("model name", platform.machine()), *skills[:1]])
    return platform.processor() or platform.machine()
