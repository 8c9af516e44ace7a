"""The package table of ARCHITECTURE.md as tests: imports point one way, a library has one owner, --help is quick."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "infer_app"

# Modules that any package may import; among themselves they import only what stands before them.
SHARED = [
    "errors",
    "plurals",
    "machine",
    "atomic_file",
    "locations",
    "day",
    "recipe",
    "domain",
    "model_variants",
    "run_report",
    "model_names",
    "packages",
]
# What else a package may import, the lowest first; None: whatever stands before it.
MAY_IMPORT: dict[str, set[str] | None] = {
    "images.read": set(),
    "images.transform": {"images.read"},
    "images.decode": {"images.read", "images.transform"},
    "workers": set(),
    "models.artifact": {"workers"},
    "models.runtimes": {"models.artifact"},
    "models.sources": {"models.runtimes"},
    "models.detection": {"images.transform", "models.artifact"},
    "models.verification": {"images.read", "models.artifact", "models.detection"},
    "telemetry": set(),
    "handlers": {
        "images.decode",
        "images.read",
        "images.transform",
        "models.artifact",
        "models.runtimes",
        "models.verification",
        "telemetry",
        "workers",
    },
    "cluster": {"handlers", "images.read", "models.artifact", "workers"},
    "settings": set(),
    "database.engine": {"settings"},
    "database.results": {"database.engine"},
    "database.listing": {"database.engine", "database.results", "settings"},
    "database.audits": {"database.engine", "database.results"},
    "database.queries": {"database.audits", "database.engine", "database.listing", "database.results", "settings"},
    "database.figures": {"database.engine", "database.listing", "database.queries", "database.results"},
    "database": {
        "database.engine",
        "database.listing",
        "database.queries",
        "database.results",
        "images.read",
        "settings",
    },
    "models.selection": {"models.artifact", "models.runtimes", "models.verification"},
    "models.building": {
        "images.decode",
        "images.read",
        "images.transform",
        "models.artifact",
        "models.detection",
        "models.runtimes",
        "models.selection",
        "models.sources",
        "models.verification",
        "workers",
    },
    "export": {"database", "database.figures", "database.queries", "database.results", "telemetry"},
    "export.sampling": {"database.figures", "database.queries", "export", "images.decode", "images.read"},
    "pipeline.planning": None,
    "pipeline.files": None,
    "pipeline.flow": None,
    "pipeline": None,
    "cli.terminal": {"telemetry"},
    "cli.commands": {"cli.terminal"},
    "answers.comparison": {"database", "database.figures", "database.queries", "models.detection"},
    "answers": None,
    "reporting": None,
    "replay": None,
    "preflight": None,
    "cli.look": None,
    "cli.model": None,
    "cli.run": None,
    "cli.project": None,
    "cli": None,
    "__main__": {"cli"},
    "database.results.migrations": {"database.results"},
    "database.results.migrations.versions": set(),
}
OWNERS = {
    "typer": {"cli"},
    "sqlite3": {"database"},
    "sqlalchemy": {"database", "settings"},
    "pydantic_settings": {"settings"},
    "alembic": {"database"},
    "psycopg": {"database/engine/postgres_connection.py"},
    "pymysql": {"database/engine/mysql_connection.py"},
    "turbojpeg": {"images"},
    "cykooz_resizer": {"images/transform/resize.py"},
    "http": {"images/read/http.py", "telemetry/notify.py"},
    "urllib3": {"images/read/http.py", "images/read/connection.py"},
    "fsspec": {"images/read/buckets.py"},
    "PIL": {
        "images",
        "models/building/golden_set.py",
        "reporting/thumbnails.py",
        "replay/reference_pipeline.py",
    },
    "timm": {"models/sources/timm_network.py"},
    "torchvision": {"models/sources/torchvision_network.py"},
    "transformers": {"models/sources/hugging_face.py"},
    "torch.jit": {"models/runtimes/torchscript.py"},
    "openvino": {"models/runtimes/openvino.py"},
    "onnxruntime": {"models/runtimes/graph_source.py"},
    "nncf": {"models/runtimes/openvino.py"},
    "torch_tensorrt": {"models/runtimes/tensorrt.py"},
    "tensorrt": {"models/runtimes/tensorrt.py"},
    "multiprocessing": {"workers"},
    "jinja2": {"reporting"},
    "rich": {"cli", "telemetry"},
    "prometheus_client": {"telemetry/metrics.py"},
    "urllib.request": {"telemetry/notify.py"},
    "ray": {"cluster/ray_cluster.py"},
    "pyarrow": {"export/parquet.py"},
}


@cache
def imports() -> list[tuple[str, str]]:
    """(file, imported module), imports inside functions too."""
    return list(read_imports())


def read_imports() -> Iterator[tuple[str, str]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names = [f"{name}.{alias.name}" for name in names for alias in node.names] or names
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from ((str(path.relative_to(PACKAGE)), name) for name in names)


def package_of(module: str) -> str:
    """Return the package of a module or of a name in it, such as database.results; files at the top are their own."""
    path = PACKAGE.joinpath(*module.split("."))
    while not path.is_dir() and not path.with_suffix(".py").exists():
        path = path.parent
    is_file = path.with_suffix(".py").exists()
    found = ".".join(path.relative_to(PACKAGE).parts)
    return found.rpartition(".")[0] or found if is_file else found


def inner_imports() -> set[tuple[str, str]]:
    pairs = {(package_of(file.removesuffix(".py").replace("/", ".")), package_of(name)) for file, name in inner()}
    return {(importer, imported) for importer, imported in pairs if importer != imported and imported}


def inner() -> list[tuple[str, str]]:
    return [(file, name.removeprefix("infer_app.")) for file, name in imports() if name.startswith("infer_app.")]


def test_imports_point_one_way():
    order = [*SHARED, *MAY_IMPORT]
    pairs = inner_imports()
    assert {name for pair in pairs for name in pair} <= set(order)
    assert [pair for pair in pairs if order.index(pair[0]) < order.index(pair[1])] == []


def test_a_package_imports_what_it_may():
    allowed = {(package, name) for package, names in MAY_IMPORT.items() for name in names or ()}
    used = {pair for pair in inner_imports() if pair[1] not in SHARED and MAY_IMPORT.get(pair[0], set()) is not None}
    assert used == allowed


def test_no_package_has_more_than_a_dozen_files():
    folders = [folder for folder in (PACKAGE, *PACKAGE.rglob("*")) if folder.is_dir()]
    assert {str(folder): n for folder in folders if (n := len([*folder.glob("[a-z]*.py")])) > 12} == {}


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
    assert users <= {"models/runtimes/torchscript.py"}


def test_no_file_and_no_class_has_the_name_of_another():
    files = [path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    nodes = (node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter([*files, *classes]).items() if count > 1] == []


def test_what_differs_between_databases_is_asked_of_their_backends():
    """Past migrations stay as they are; the settings read a URL before there is a database."""
    asked = re.compile(r"dialect\.name|is_sqlite|get_backend_name|\.drivername|startswith\(.sqlite")
    places = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if asked.search(file.read_text())}
    elsewhere = {place for place in places if not place.startswith(("database/engine/", MIGRATIONS))}
    assert elsewhere == {"settings/load.py"}


MIGRATIONS = "database/results/migrations/versions/"
CHAPTERS = Path(__file__).with_name("chapters.toml")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count_code_lines(path: Path) -> int:
    """Count the lines that hold code: neither empty, nor a comment alone, nor of a docstring."""
    source = path.read_text()
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED))
    docstrings = (node.body[0] for node in nodes if ast.get_docstring(node))
    documenting = {line for one in docstrings for line in range(one.lineno, one.end_lineno + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in documenting and line.strip()[:1] not in ("", "#") for number, line in lines)


def test_the_package_and_its_chapters_have_no_more_code_lines_than_a_file_allows():
    allowed = tomllib.loads(CHAPTERS.read_text())
    lines = {str(path.relative_to(PACKAGE)): count_code_lines(path) for path in PACKAGE.rglob("*.py")}
    counted = [("package", sum(lines.values()), allowed.pop("package"))]
    for name, chapter in allowed.items():
        own = [*chapter["files"], *(file for file in lines if file.rpartition("/")[0] in chapter.get("folders", ()))]
        assert [file for file in own if file not in lines] == [], f"take deleted files out of {CHAPTERS.name}"
        counted.append((name, sum(lines[file] for file in own), chapter["lines"]))
    assert [f"{name}: {found}, {CHAPTERS.name} allows {most}" for name, found, most in counted if found > most] == []
