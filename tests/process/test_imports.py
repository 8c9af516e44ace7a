"""What a command imports: --help neither torch nor a database, and only some of the commands torch."""

import pkgutil
import subprocess
import sys

import infer_app

# What builds models and compares them with their source, and what runs TorchScript and GPU variants.
LOADS_TORCH = (
    "build",
    "cli.model.build",
    "cli.model.check",
    "predict.handlers.gpu_handlers",
    "predict.runtimes.gpu_variants",
    "predict.runtimes.tensorrt",
    "predict.runtimes.torchscript",
)


def test_help_loads_neither_torch_nor_a_database():
    script = (
        "import sys; from infer_app.cli import load_app;"
        "load_app()(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1]
    assert not [name for name in ("'torch'", "'sqlalchemy'", "'numpy'", "'PIL'", "'pydantic'") if name in loaded]


def test_no_other_module_loads_torch():
    skipped = tuple(f"infer_app.{name}" for name in (*LOADS_TORCH, "tables.results.migrations"))
    found = [one.name for one in pkgutil.walk_packages(infer_app.__path__, "infer_app.")]
    names = [name for name in found if not name.startswith(skipped)]
    assert len(names) > 200
    script = f"import sys, importlib; [*map(importlib.import_module, {names})]; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_run_over_local_files_loads_nothing_that_only_other_runs_need():
    """Each of these takes 10 to 60 ms, of the third of a second of a day with nothing to do."""
    names = (
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
    )
    script = f"import sys, infer_app.cli.run.run; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_the_package_runs_as_the_command():
    run = subprocess.run([sys.executable, "-m", "infer_app", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"infer_app {infer_app.__version__}\n")
