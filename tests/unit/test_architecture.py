"""The drawing of docs/design.md, as tests: imports point one way, a library has one owner, --help is quick."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "infer_app"

# What a room may import, besides itself. Files at the top level are rooms of their own.
FREE = {"records", "errors", "day", "settings", "places"}
MAY_IMPORT = {
    "records": set(),
    "errors": set(),
    "day": {"errors"},
    "places": set(),
    "settings": {"errors", "day", "places"},
    "stop": {"errors"},
    "holdback": {"records", "errors", "images", "places"},
    "demo": {"errors"},
    "observe": FREE,
    "database": FREE,
    "images": {"records", "errors", "places"},
    "loading": {"records", "errors"},
    "models": {"records", "errors", "images", "loading", "places"},
    "executors": {"records", "errors", "images", "loading", "models", "observe", "places"},
    "tune": {"images", "records", "errors", "executors", "loading", "models"},
    "tables": FREE | {"database"},
    "placement": FREE | {"database", "executors", "images", "models", "tune"},
    "job": FREE | {"database", "executors", "images", "models", "placement", "tables", "tune"},
    "chunks": {"records"},
    "run": FREE
    | {"chunks", "job", "database", "executors", "failure_budget", "holdback", "images", "loading", "observe", "stop"},
    "failure_budget": {"records", "settings"},
    "report": FREE | {"database", "images", "loading", "observe"},
    "similarity": set(),
    "explain": FREE | {"chunks", "database", "images", "loading", "models", "placement", "similarity", "tables"},
    "notify": set(),
    "bench": FREE | {"placement", "tune", "loading", "models", "images", "observe"},
}
OWNERS = {
    "typer": {"cli"},
    "sqlalchemy": {"database", "settings"},
    "alembic": {"database"},
    "psycopg": {"database/postgres.py"},
    "pymysql": {"database/mariadb.py"},
    "turbojpeg": {"images"},
    "http": {"images/http.py", "images/connection.py", "notify/post.py"},
    "fsspec": {"images/objects.py"},
    "PIL": {"images", "models/golden_images.py", "bench/workload.py", "report/thumbnails.py"},
    "nvidia": {"images/gpu_decode.py"},
    "torch.jit": {"models/torchscript.py"},
    "openvino": {"models/openvino.py"},
    "nncf": {"models/openvino.py"},
    "torch_tensorrt": {"models/tensorrt.py"},
    "tensorrt": {"models/tensorrt.py"},
    "multiprocessing": {"loading", "bench/strategies.py"},
    "jinja2": {"report"},
    "rich": {"cli", "observe"},
    "structlog": {"observe/log.py"},
    "prometheus_client": {"observe/metrics.py"},
    "urllib.request": {"notify/post.py"},
    "ray": {"executors/cluster.py"},
}


@cache
def imports() -> list[tuple[str, str]]:
    """(file, imported module), imports inside functions too."""
    return list(read_imports())


def read_imports() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from ((str(path.relative_to(PACKAGE)), name) for name in names)


def room(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


@pytest.mark.parametrize("importer", sorted(MAY_IMPORT))
def test_imports_point_one_way(importer):
    inner = [(file, name) for file, name in imports() if name.startswith("infer_app.") and room(file) == importer]
    wrong = [(file, name) for file, name in inner if name.split(".")[1] not in MAY_IMPORT[importer] | {importer}]
    assert wrong == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_a_library_has_one_owner(library):
    users = {file for file, name in imports() if name == library or name.startswith(f"{library}.")}
    strangers = [
        user for user in users if not any(user == own or user.startswith(f"{own}/") for own in OWNERS[library])
    ]
    assert strangers == []


def test_only_torchscript_calls_torch_jit():
    calls = re.compile(r"^[^#]*torch\.jit\.", re.MULTILINE)
    users = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if calls.search(path.read_text())}
    assert users <= {"models/torchscript.py"}


def test_help_loads_neither_torch_nor_a_database():
    script = (
        "import sys; from infer_app.cli.app import app;"
        "app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1]
    assert not [name for name in ("'torch'", "'sqlalchemy'", "'numpy'", "'PIL'") if name in loaded]


def test_the_coordinator_of_a_run_loads_no_torch():
    script = "import sys, infer_app.cli.run.run; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_run_over_local_files_loads_nothing_that_reads_remote_ones():
    names = (
        "fsspec",
        "s3fs",
        "infer_app.images.read.remote",
        "infer_app.images.read.http",
        "infer_app.images.read.prefetch",
    )
    script = f"import sys, infer_app.cli.run.run; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
