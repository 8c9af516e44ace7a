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

# What else a part may import. Three programs, build, run and ask, share the others, and none imports another.
PARTS = {
    "base": set[str](),
    "artifact": {"base"},
    "tables": {"base", "artifact"},
    "predict": {"base", "artifact"},
    "run": {"base", "artifact", "tables", "predict"},
    "build": {"base", "artifact", "predict"},
    "ask": {"base", "artifact", "tables", "predict"},
    "cli": {"base", "artifact", "tables", "predict", "run", "build", "ask"},
    "__main__": {"cli"},
}
# A package imports only what stands before it.
ORDER = [
    "base",
    "base.settings",
    "base.telemetry",
    "artifact",
    "tables.engine",
    "tables.results",
    "tables.results.migrations",
    "tables.results.migrations.versions",
    "tables.listing",
    "tables.queries",
    "tables.rows",
    "tables.cameras",
    "tables.day",
    "tables",
    "predict.images.read",
    "predict.images.transform",
    "predict.images.decode",
    "predict.workers",
    "predict.runtimes",
    "predict.detection",
    "predict.verification",
    "predict.handlers",
    "predict.cluster",
    "predict",
    "run.files",
    "run.flow",
    "run",
    "build.sources",
    "build.network",
    "build.variants",
    "build",
    "build.check",
    "ask.figures",
    "ask",
    "ask.compare",
    "ask.export",
    "ask.export.formats",
    "ask.export.sampling",
    "ask.page",
    "cli.terminal",
    "cli.commands",
    "cli.look",
    "cli.model",
    "cli.run",
    "cli.project",
    "cli",
    "__main__",
]
OWNERS = {
    "typer": {"cli"},
    "sqlite3": {"tables"},
    "sqlalchemy": {"tables", "ask", "base/settings"},
    "alembic": {"tables/results"},
    "psycopg": {"tables/engine/postgres_connection.py"},
    "pymysql": {"tables/engine/mysql_connection.py"},
    "turbojpeg": {"predict/images"},
    "cykooz_resizer": {"predict/images/transform/resize.py"},
    "http": {"predict/images/read/http.py", "base/telemetry/notify.py"},
    "urllib3": {"predict/images/read/http.py", "predict/images/read/connection.py"},
    "fsspec": {"predict/images/read/buckets.py"},
    "PIL": {
        "predict/images",
        "build/network/golden_set.py",
        "ask/page/thumbnails.py",
        "build/check/reference_pipeline.py",
    },
    "timm": {"build/sources/timm_network.py"},
    "torchvision": {"build/sources/torchvision_network.py"},
    "transformers": {"build/sources/hugging_face.py"},
    "torch": {"build", "predict/runtimes", "predict/handlers/gpu_handlers.py", "cli/project/quickstart.py"},
    "torch.jit": {"predict/runtimes/torchscript.py"},
    "openvino": {"predict/runtimes/openvino.py"},
    "onnxruntime": {"build/network/graph_source.py"},
    "nncf": {"predict/runtimes/openvino.py"},
    "torch_tensorrt": {"predict/runtimes/tensorrt.py"},
    "tensorrt": {"predict/runtimes/tensorrt.py"},
    "multiprocessing": {"predict/workers"},
    "jinja2": {"ask/page"},
    "rich": {"cli", "base/telemetry"},
    "prometheus_client": {"base/telemetry/metrics.py"},
    "urllib.request": {"base/telemetry/notify.py"},
    "ray": {"predict/cluster/ray_cluster.py"},
    "pyarrow": {"ask/export/formats/parquet.py"},
}


# Of `run`, `predict` and `tables`: modules that only tests of other names run, and those tests.
TESTED_BY = {
    "predict.cluster.actor_pool": "integration/test_ray.py",
    "predict.images.decode.tiff": "unit/predict/images/decode/test_pictures_page.py",
    **{f"predict.verification.{one}": "unit/predict/verification/test_outputs.py" for one in ("regression", "vectors")},
    "predict.verification.classification": "unit/predict/verification/test_outputs.py",
    **{f"predict.workers.{one}": "process/predict/workers/test_fork_server.py" for one in ("parent_death", "preload")},
    **{f"tables.engine.{one}": "databases" for one in ("bulk", "mysql_connection")},
    "tables.cameras.redate": "integration/test_watch.py",
    "tables.engine.postgres_connection": "databases/test_frozen.py",
    "tables.queries.scope": "databases/conformance/test_versions.py",
    "tables.results.conditions": "databases/test_plans.py",
    "tables.results.counters": "databases/test_known_database.py",
    "tables.results.object_rows": "databases/test_second_networks.py",
}


@cache
def imports() -> list[tuple[str, str]]:
    """(file, imported module), imports inside functions too."""
    return list(read_imports(PACKAGE))


def read_imports(folder: Path) -> Iterator[tuple[str, str]]:
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            names = [f"{name}.{alias.name}" for name in names for alias in node.names] or names
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            yield from ((str(path.relative_to(folder)), name) for name in names)


def package_of(module: str) -> str:
    """Return the package of a module or of a name in it, such as database.results; files at the top are their own."""
    path = PACKAGE.joinpath(*module.split("."))
    while not path.is_dir() and not path.with_suffix(".py").exists():
        path = path.parent
    is_file = path.with_suffix(".py").exists()
    found = ".".join(path.relative_to(PACKAGE).parts)
    return found.rpartition(".")[0] or found if is_file else found


def inner_imports() -> set[tuple[str, str]]:
    inner = [(file, name.removeprefix("infer_app.")) for file, name in imports() if name.startswith("infer_app.")]
    pairs = {(package_of(file.removesuffix(".py").replace("/", ".")), package_of(name)) for file, name in inner}
    return {(importer, imported) for importer, imported in pairs if importer != imported and imported}


def test_imports_point_one_way():
    pairs = inner_imports()
    assert {name for pair in pairs for name in pair} <= set(ORDER)
    assert [pair for pair in pairs if ORDER.index(pair[0]) < ORDER.index(pair[1])] == []


def test_a_part_imports_what_it_may_and_no_program_another():
    parts = {(importer.partition(".")[0], imported.partition(".")[0]) for importer, imported in inner_imports()}
    assert {(part, name) for part, name in parts if part != name} == {
        (part, name) for part, names in PARTS.items() for name in names
    }


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
    assert users <= {"predict/runtimes/torchscript.py"}


def test_no_file_and_no_class_has_the_name_of_another():
    files = [path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    nodes = (node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    classes = [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    assert [name for name, count in Counter([*files, *classes]).items() if count > 1] == []


def test_each_module_of_run_predict_and_tables_has_a_test_of_its_name_or_one_that_imports_it():
    tests = PACKAGE.parent / "tests"
    of_name = {path.stem.removeprefix("test_") for path in tests.rglob("test_*.py")}
    named = {name for _, name in read_imports(tests)}
    modules = [path for part in ("run", "predict", "tables") for path in PACKAGE.joinpath(part).rglob("[a-z]*.py")]
    untested = {
        module
        for path in modules
        if path.stem not in of_name and "migrations" not in path.parts
        if f"infer_app.{(module := '.'.join(path.relative_to(PACKAGE).with_suffix('').parts))}" not in named
        and not any(name.startswith(f"infer_app.{module}.") for name in named)
    }
    assert untested == TESTED_BY.keys()
    assert [test for test in TESTED_BY.values() if not (tests / test).exists()] == []


def test_what_differs_between_databases_is_asked_of_their_backends():
    """Past migrations stay as they are; the settings read a URL before there is a database."""
    asked = re.compile(r"dialect\.name|is_sqlite|get_backend_name|\.drivername|startswith\(.sqlite")
    places = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if asked.search(file.read_text())}
    elsewhere = {place for place in places if not place.startswith(("tables/engine/", MIGRATIONS))}
    assert elsewhere == {"base/settings/load.py"}


def test_migrations_import_nothing_that_later_layouts_change():
    used = {name for file, name in imports() if file.startswith(MIGRATIONS) and name.startswith("infer_app.")}
    assert {name for name in used if not name.startswith("infer_app.tables.engine.")} == set()


MIGRATIONS = "tables/results/migrations/"
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
