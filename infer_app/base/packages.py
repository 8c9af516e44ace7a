"""Tells the versions of the program, of packages, the processor and the driver, and how packages are installed here.

Only `find_fault` loads a library.
"""

import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from infer_app import __version__
from infer_app.base.domain import DECODER_MODULES, TRANSIENT_REASONS, Reason

PROC = Path("/proc")
DISTRIBUTION = "infer_app"
SOURCE = Path(__file__).parents[2]  # the clone, unless the program was copied into an environment
IMAGE_EXTRAS = "IMAGE_EXTRAS"  # the variable in which a container image of docker/ keeps its extras
TENSORRT = ("tensorrt-cu13-bindings", "tensorrt-cu13", "tensorrt")  # distributions, the most specific first
# The packages that decide what a run computes and how fast. Of several for one key, the first that is installed.
RECORDED = {
    "torch": ("torch",),
    "openvino": ("openvino",),
    "numpy": ("numpy",),
    "pillow": ("Pillow",),
    "pyturbojpeg": ("PyTurboJPEG",),
    "cykooz_resizer": ("cykooz-resizer",),
    "pillow_heif": ("pillow-heif",),
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
        return install_packages(self.required)


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
        is_needed = marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""})
        required = f"{requirement.name}{requirement.specifier}"
        is_wrong = not extras if installed is None else not requirement.specifier.contains(installed, prereleases=True)
        if is_needed and is_wrong:
            yield Mismatch(requirement.name, installed, required)


def _first(pattern: str, file: Path) -> str | None:
    with suppress(OSError):
        found = re.search(pattern, file.read_text(errors="replace"), re.MULTILINE)
        return found[1].strip() if found else None
    return None


def find_fault(library: str) -> tuple[str, str] | None:
    """Import a library of networks, and torchvision too if it is there, which the others import.

    Returns the message and the hint of an error, None if both can be imported.
    """
    if find_spec(library) is None:
        hint = _torchvision_hint() if library == "torchvision" else install("networks")
        return f"this source needs the package {library}", hint
    for name in dict.fromkeys(("torchvision", library)):
        try:
            if find_spec(name):
                import_module(name)
        except Exception as error:  # torchvision beside another torch raises a RuntimeError
            found = f"{name} {installed_version(name)} can't be imported beside torch {version('torch')}"
            hint = _torchvision_hint() if name == "torchvision" else install_packages("-U", name)
            return f"{found}: {str(error).partition(chr(10))[0]}", hint
    return None


def _torchvision_hint() -> str:
    """Return which torchvision fits: 0.15 was made for torch 2.0, and one with each torch since."""
    major, minor = map(int, version("torch").split(".")[:2])
    return (
        f"torch {major}.{minor} needs torchvision 0.{minor + 15} from the same index, for the CPU or for CUDA: "
        "PyTorch's install page says how"
    )


def install(extra: str) -> str:
    """Return the command that installs an extra here: by what it requires, so that no index has to have infer_app.

    The metadata of a clone that was pulled may be of a former version, without this extra.
    """
    if (built := os.environ.get(IMAGE_EXTRAS)) is not None:
        extras = ",".join(filter(None, (built, extra)))
        return f"build the container image again with --build-arg EXTRAS={extras}, besides what it was built with"
    with suppress(PackageNotFoundError):
        if needed := list(_of_extra(extra, requires(DISTRIBUTION) or ())):
            return install_packages(*needed)
    return install_packages("-e", f"{SOURCE}[{extra}]")


def install_packages(*needed: str) -> str:
    """Return the command that installs packages, or changes them, in the environment of this program."""
    if IMAGE_EXTRAS in os.environ:
        return f"build the container image again, with {' '.join(needed)}"
    python = f"{shlex.quote(sys.executable)} -m"
    # Not by all finders: that of setuptools warns where distutils is loaded.
    pip = "" if PathFinder.find_spec("pip") else f"{python} ensurepip && "
    return f"{pip}{python} pip install {shlex.join(needed)}"


def _of_extra(extra: str, known: Sequence[str]) -> Iterator[str]:
    for requirement, _, marker in (one.partition(";") for one in known):
        if f'extra == "{extra}"' in marker:
            name, _, inner = requirement.strip().rstrip("]").partition("[")
            yield from _of_extra(inner, known) if name.replace("-", "_") == DISTRIBUTION else (requirement.strip(),)


def describe_version() -> str:
    """Return the version, and the commit of the clone that the program runs from."""
    return ", commit ".join(filter(None, (f"{DISTRIBUTION} {__version__}", _commit())))


def _commit() -> str:
    """Return the commit, with `-dirty` if tracked files were changed; empty if this is no clone or git can't tell."""
    if not (SOURCE / ".git").exists():  # git itself would find the repository that an environment lies in
        return ""
    git = ["git", "--no-optional-locks", "-C", str(SOURCE), "-c", f"safe.directory={SOURCE}"]
    with suppress(OSError):
        told = subprocess.run([*git, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True)
        return told.stdout.strip()
    return ""
