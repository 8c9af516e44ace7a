"""Builds the stand-in runtime and lays out a machine that has it: two packages and what they pretend to be."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY = "libtorchtrt_runtime.so"
MACHINE = {"abi": "9", "capability": "9.0", "tensorrt": "11.0.0"}


def compile_runtime(folder: Path) -> Path:
    """The library, compiled for this torch; about 20 s. Raises CalledProcessError."""
    from torch.utils.cpp_extension import include_paths, library_paths

    library = folder / LIBRARY
    if library.exists():
        return library
    new = folder / f".{LIBRARY}"
    includes = [f"-I{path}" for path in include_paths()]
    links = [word for path in library_paths() for word in (f"-L{path}", f"-Wl,-rpath,{path}")]
    source = str(HERE / "tensorrt_runtime.cpp")
    command = ["g++", "-std=c++20", "-O0", "-fPIC", "-shared", *includes, source, "-o", str(new), *links]
    subprocess.run([*command, "-lc10", "-ltorch_cpu", "-ltorch"], check=True, capture_output=True, text=True)
    return new.replace(library)


def lay_out(folder: Path, library: Path, **machine: str) -> Path:
    """A folder for sys.path with `torch_tensorrt` and `tensorrt` of a machine like MACHINE but for what is given."""
    for package in ("torch_tensorrt", "tensorrt"):
        shutil.copytree(HERE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "torch_tensorrt" / "lib").mkdir()
    shutil.copy(library, folder / "torch_tensorrt" / "lib" / LIBRARY)
    (folder / "torch_tensorrt" / "machine.json").write_text(json.dumps(MACHINE | machine))
    return folder
