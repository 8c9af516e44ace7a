"""What a command imports: --help neither torch nor a database, a run no torch in its coordinator."""

import subprocess
import sys


def test_help_loads_neither_torch_nor_a_database():
    script = (
        "import sys; from infer_app.cli.app import app;"
        "app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = run.stdout.splitlines()[-1]
    assert not [name for name in ("'torch'", "'sqlalchemy'", "'numpy'", "'PIL'", "'pydantic'") if name in loaded]


def test_the_coordinator_of_a_run_loads_no_torch():
    script = "import sys, infer_app.cli.run.run; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_a_run_over_local_files_loads_nothing_that_reads_remote_ones():
    names = (
        "fsspec",
        "s3fs",
        "urllib3",
        "infer_app.images.read.remote",
        "infer_app.images.read.http",
        "infer_app.images.read.prefetch",
    )
    script = f"import sys, infer_app.cli.run.run; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
