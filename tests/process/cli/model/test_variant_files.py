import pytest
from sqlalchemy import delete, update

from infer_app.artifact.artifact import record_variant
from infer_app.base.errors import DayHeld, UsageError
from infer_app.base.model_variants import OPENVINO_INT8, TORCHSCRIPT
from infer_app.cli.model.variant_files import check_replaceable
from infer_app.tables.results.runs import RunModel, RunStore
from infer_app.tables.results.schema import predictions, runs
from tests.conftest import DAY
from tests.support.networks import built
from tests.support.results import commit, predicted


@pytest.fixture
def artifact(tmp_path, monkeypatch):
    """A model with an int8 variant in ./models, without a project."""
    monkeypatch.chdir(tmp_path)
    return record_variant(built(tmp_path), OPENVINO_INT8, {}, {"model.xml": b"A"})


@pytest.fixture
def project(artifact, database, register, tmp_path):
    """Make it a project, with two images on DAY."""
    (tmp_path / "infer.toml").touch()
    register("/1.jpg", "/2.jpg")
    return database


def run(database, artifact, variant=OPENVINO_INT8, **values):
    """Open a run that predicted three images with `variant`, and give its row these values."""
    manifest = artifact.manifest
    model = RunModel(manifest.name, manifest.model_id, variant, {}, variant_sha256=manifest.variant_sha256(variant))
    run_id = RunStore(database).open_run(DAY, model)
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run_id).values(predicted=3, **values))
    return run_id


def test_no_variant_is_replaced_while_a_run_of_its_version_is_active(artifact, project):
    run(project, artifact, TORCHSCRIPT, state="done")  # it keeps no int8
    check_replaceable(artifact, [OPENVINO_INT8], None)
    run_id = run(project, artifact, TORCHSCRIPT)
    check_replaceable(artifact, [], None)
    with pytest.raises(DayHeld, match=f"run {run_id} of .* is active") as caught:
        check_replaceable(artifact, [OPENVINO_INT8], None)
    assert caught.value.exit_code == 13


def test_a_variant_of_a_day_that_is_not_finished_stays(artifact, project):
    run_id = run(project, artifact)
    commit(project, predicted("2"), run_id=run_id, model_id=artifact.manifest.model_id)
    RunStore(project).fail_run(run_id, 12, "")
    with pytest.raises(UsageError, match=f"{DAY} was begun with {OPENVINO_INT8} .* 1 image of it is pending") as caught:
        check_replaceable(artifact, [OPENVINO_INT8], None)
    version = f"{artifact.manifest.name}@{artifact.manifest.model_id[:8]}"
    assert f"`infer run --date {DAY} --lookback 0 --model {version}`" in caught.value.hint
    check_replaceable(artifact, ["cuda-fp16"], None)  # which the model has not: nothing is replaced
    with project.write() as connection:
        connection.execute(delete(predictions))  # as `infer forget` does
    check_replaceable(artifact, [OPENVINO_INT8], None)


@pytest.mark.parametrize("has_settings", [False, True])
def test_without_a_database_nothing_needs_a_variant(artifact, tmp_path, has_settings):
    if has_settings:
        (tmp_path / "infer.toml").touch()
    check_replaceable(artifact, [OPENVINO_INT8], None)
