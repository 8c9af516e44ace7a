"""What a command imports: --help neither torch nor a database, and only some of the commands torch."""

import pkgutil
import subprocess
import sys

import infer_app
from infer_app.base.packages import describe_version
from tests.support.preloaded import LOADS_TORCH

# Each of these takes 10 to 60 ms, of the third of a second of a day with nothing to do.
ONLY_FOR_OTHER_RUNS = {
    "numpy",
    "rich",
    "http.client",
    "prometheus_client",
    "sqlalchemy.dialects.postgresql",
    "fsspec",
    "s3fs",
    "urllib3",
    "infer_app.predict.images.read.remote",
    "infer_app.predict.images.read.http",
    "infer_app.predict.images.read.prefetch",
}


def loaded_by(code):
    """Return the modules that a process of its own has loaded once it has run this code."""
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules, sep='\\n')"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def test_help_loads_neither_torch_nor_a_database():
    loaded = loaded_by("from infer_app.cli import load_app; load_app()(['--help'], standalone_mode=False)")
    assert "typer" in loaded
    assert loaded.isdisjoint({"torch", "sqlalchemy", "numpy", "PIL", "pydantic"})


def test_no_other_module_loads_torch():
    skipped = tuple(f"infer_app.{name}" for name in (*LOADS_TORCH, "tables.results.migrations"))
    found = [one.name for one in pkgutil.walk_packages(infer_app.__path__, "infer_app.")]
    names = [name for name in found if not name.startswith(skipped)]
    assert len(names) > 200
    assert "torch" not in loaded_by(f"import importlib; [*map(importlib.import_module, {names})]")


def test_a_run_over_local_files_loads_nothing_that_only_other_runs_need():
    assert loaded_by("import infer_app.cli.run.run").isdisjoint(ONLY_FOR_OTHER_RUNS)


def test_the_package_runs_as_the_command():
    run = subprocess.run([sys.executable, "-m", "infer_app", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"{describe_version()}\n")
