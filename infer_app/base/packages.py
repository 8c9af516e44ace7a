"""Tells the versions of packages, the processor and the driver. Only `require_library` loads a library."""

import platform
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from infer_app import __version__
from infer_app.base.domain import DECODER_MODULES, TRANSIENT_REASONS, Reason
from infer_app.base.errors import ModelError, first_line, install

PROC = Path("/proc")
DISTRIBUTION = "infer_app"
DEVELOPMENT = frozenset({"test", "bench", "dev", "docs"})  # extras that nothing which runs daily needs
TENSORRT = ("tensorrt-cu13-bindings", "tensorrt-cu13", "tensorrt")  # distributions, the most specific first
# The packages that decide what a run computes and how fast. Of several for one key, the first that is installed.
RECORDED = {
    "torch": ("torch",),
    "openvino": ("openvino",),
    "numpy": ("numpy",),
    "pillow": ("Pillow",),
    "pyturbojpeg": ("PyTurboJPEG",),
    "cykooz_resizer": ("cykooz-resizer",),
    "pi_heif": ("pi-heif",),
    "torch_tensorrt": ("torch-tensorrt",),
    "tensorrt": TENSORRT,
    "ray": ("ray",),
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An installed package that this program is not made for, or a missing one."""

    name: str
    installed: str | None
    required: str  # as pip takes it: torch<2.14,>=2.11

    @property
    def fix(self) -> str:
        return f"{shlex.quote(sys.executable)} -m pip install {shlex.quote(self.required)}"


def recorded_packages() -> dict[str, str]:
    """Return what infer_runs records of this machine; what it doesn't have is left out."""
    found = {"infer_app": __version__, "python": platform.python_version()}
    for key, names in RECORDED.items():
        installed = next(filter(None, map(installed_version, names)), None)
        found |= {key: installed} if installed else {}
    driver = _first(r"Kernel Module(?: for \S+)?\s+([\d.]+)", PROC / "driver/nvidia/version")
    cpu = _first(r"^(?:model name|Model)\s*:\s*(.+)$", PROC / "cpuinfo") or platform.machine()
    return found | {key: value for key, value in (("nvidia_driver", driver), ("cpu", cpu)) if value}


@cache
def installed_version(distribution: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(distribution)
    return None


@cache
def missing_decoders() -> frozenset[Reason]:
    """Return the reasons that stand for a decoder which is not installed here."""
    return frozenset(reason for reason, module in DECODER_MODULES.items() if find_spec(module) is None)


def retried_reasons() -> frozenset[Reason]:
    """Return the reasons for which a later run tries again: the transient ones, and decoders that are here by now."""
    return TRANSIENT_REASONS | (DECODER_MODULES.keys() - missing_decoders())


def find_mismatches(requirements: Iterable[str] | None = None) -> Iterator[Mismatch]:
    """Yield the packages whose version this program's own requirements exclude, and those of them that are missing.

    The requirements are by default those of the installed program. Packages of extras are compared if installed.
    """
    from packaging.requirements import Requirement  # takes a while, which a run saves

    texts = (requires(DISTRIBUTION) or ()) if requirements is None else requirements
    for requirement in map(Requirement, dict.fromkeys(texts)):
        marker, installed = requirement.marker, installed_version(requirement.name)
        extras = set(re.findall(r'extra == "([^"]+)"', str(marker)))
        is_needed = marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}) - DEVELOPMENT)
        required = f"{requirement.name}{requirement.specifier}"
        is_wrong = not extras if installed is None else not requirement.specifier.contains(installed, prereleases=True)
        if is_needed and is_wrong:
            yield Mismatch(requirement.name, installed, required)


def _first(pattern: str, file: Path) -> str | None:
    with suppress(OSError):
        found = re.search(pattern, file.read_text(errors="replace"), re.MULTILINE)
        return found[1].strip() if found else None
    return None


def require_library(name: str) -> None:
    """Raise ModelError unless a library can be imported, and torchvision too if it is there: the others import it."""
    if find_spec(name) is None:
        hint = _torchvision_hint() if name == "torchvision" else install(name)
        raise ModelError(f"this source needs the package {name}", hint)
    for one in dict.fromkeys(("torchvision", name)):
        try:
            if find_spec(one):
                import_module(one)
        except Exception as error:  # torchvision beside another torch raises a RuntimeError
            found = f"{one} {installed_version(one)} can't be imported beside torch {version('torch')}"
            hint = _torchvision_hint() if one == "torchvision" else f"pip install -U {one}"
            raise ModelError(f"{found}: {first_line(error)}", hint) from error


def _torchvision_hint() -> str:
    """Return which torchvision fits: 0.15 was made for torch 2.0, and one with each torch since."""
    major, minor = map(int, version("torch").split(".")[:2])
    return (
        f"torch {major}.{minor} needs torchvision 0.{minor + 15} from the same index, for the CPU or for CUDA: "
        "PyTorch's install page says how"
    )
