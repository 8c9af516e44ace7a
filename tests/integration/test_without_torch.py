"""Runs of OpenVINO variants load no torch, and a machine that has none does all but build models."""

from functools import partial

import pytest

from tests.support.projects import DATE, found_first, install, without

RECORDS = """import pathlib, traceback
with pathlib.Path(__file__).with_name("imported").open("a") as file:  # workers may be ended while they write
    file.write("".join(traceback.format_stack()))
raise RuntimeError("torch was imported")
"""


@pytest.fixture
def day(project):
    project.add_photos(6)
    return project


@pytest.mark.always
def test_no_process_of_a_run_imports_torch(day, tmp_path):
    imported, environ = tmp_path / "first/imported", found_first(tmp_path / "first", torch=RECORDS)
    assert day.run_day(**environ)["predicted"] == 6
    assert not imported.exists(), imported.read_text()
    day.write("DELETE FROM infer_predictions WHERE picture = 1")
    day.write("UPDATE infer_runs SET variant = 'cpu-torchscript'")
    day.run_day(exit_code=1, **environ)
    assert "worker" in imported.read_text()


@pytest.fixture
def bare(day, tmp_path):
    """`infer` on a machine without torch, with models that were built elsewhere."""
    return partial(day.infer, **without(tmp_path / "hides", "torch"))


def test_a_machine_without_torch_runs_models_that_were_built_elsewhere(bare, day):
    run = ("run", "--date", DATE, "--lookback", "0")
    bare(*run, "--dry-run")
    bare(*run, "--report")
    assert f"cpu-torchscript was passed over: torch is not installed: {install('torch')}" in day.errors
    assert len(day.results()) == 6
    assert "1 as stored, 0 not" in bare("verify", "--image", "1")
    bare("model", "verify", "colors")
    assert "torch is not" not in bare("doctor")


@pytest.mark.parametrize(
    "command",
    [
        ["model", "build", "colors.ts", "--name", "other"],
        ["model", "check", "colors", "--images", "photos"],
        ["model", "judge", "colors", "--date", DATE],
    ],
)
def test_what_needs_torch_says_so_with_what_installs_it(bare, day, command):
    bare(*command, exit_code=2)
    assert day.errors.startswith(f"infer: torch is not installed, and this needs it\n  hint: {install('torch')}")
