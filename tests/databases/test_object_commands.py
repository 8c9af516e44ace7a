"""The commands over the rows of a detector, each as a process: they are those of no model that is built here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import DatabaseUnavailable
from infer_app.run.database_checks import check_rights
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import metadata
from tests.conftest import MODEL
from tests.databases.conformance.test_roles import MAY_WRITE
from tests.databases.conftest import ServerProject
from tests.support.results import commit, of_objects

NOON = datetime.now(UTC).replace(hour=12, tzinfo=None) - timedelta(days=2)
DATE = f"{NOON:%Y-%m-%d}"


def cat(score, x=0.0, label="cat"):
    return DetectedObject(label, 0, score, x, 0.0, 0.25, 0.5)


@pytest.fixture
def project(url, tmp_path, monkeypatch, database):
    """Two detectors have seen images 1 and 2, and only `cats` image 3, where it found nothing."""
    monkeypatch.setenv("INFER_DATABASE__URL", url)
    project = ServerProject(tmp_path / "project", url)
    add_images(database, [Path(f"/p/{number}.jpg") for number in (1, 2, 3)], NOON)
    manifest = {"output": {"kind": "detection", "detection": {"min_score": 0.05}}}
    seen = {
        "cats": {"1": (cat(0.9), cat(0.4, 0.5)), "2": (cat(0.3), cat(0.2, 0.5, "Cat")), "3": ()},
        "dogs": {"1": (cat(0.8, 0.01),), "2": (cat(0.7, 0.7),)},
    }
    for number, (name, found) in enumerate(seen.items()):
        model = replace(MODEL, name=name, model_id=f"{number}" * 16, manifest=manifest)
        run_id = RunStore(database).open_run(Day.of(NOON.date(), "UTC"), model)
        good = [of_objects(image_id, *objects) for image_id, objects in found.items()]
        commit(database, good, model_id=model.model_id, run_id=run_id)
    return project


@pytest.mark.slow
def test_objects_are_listed_and_compared(project):
    rows = project.list_images("predicted", DATE, "--model", "cats")
    assert [(row["image_id"], row["cause"], row["score"], row["message"]) for row in rows] == [
        ("1", "cat", 0.9, "2 objects, the best cat 0.900"),
        ("2", "cat", 0.3, "2 objects, the best cat 0.300"),
        ("3", None, None, "0 objects"),
    ]
    project.infer("threshold", "set", "cats", "--default", "0.25")
    compared = project.infer_json("compare", "--date", DATE, "--models", "cats", "dogs")
    assert (compared["kind"], compared["both"], compared["only_a"], compared["neither"]) == ("detection", 2, 1, 0)
    assert compared["objects"] | {"mean_iou": None} == {
        "matched": 1,
        "only_a": 2,
        "only_b": 1,
        "mean_iou": None,
        "mean_score_difference": pytest.approx(-0.1),
    }
    assert [(one["image_id"], one["only_a"], one["only_b"]) for one in compared["images"]] == [("2", 1, 1), ("1", 1, 0)]


@pytest.mark.parametrize(
    ("refused", "exit_code"),
    [
        ("objects", DatabaseUnavailable.exit_code),
        ("project", DatabaseUnavailable.exit_code),
        ("thresholds", 0),
        (None, 10),
    ],
)
def test_doctor_names_the_tables_that_a_role_may_not_write(database, add_role, kind, refused, exit_code):
    def rights(limited):
        ((found, exit_code),) = [(one.found, one.exit_code) for one in check_rights(limited)]
        return found, exit_code

    all_written, ok = rights(database)
    assert (all_written.endswith(" tables can be written"), ok) == (True, 0)
    if kind == "mariadb" and refused:
        pytest.skip("it can't revoke what was granted for all tables")
    grants = (
        [MAY_WRITE, f"REVOKE INSERT ON infer_{refused} FROM {{role}}"]
        if refused
        else ["GRANT SELECT ON {all} TO {role}"]
    )
    with Database(add_role(*grants)) as limited:
        found, found_exit_code = rights(limited)
    tables = f"infer_{refused}" if refused else ", ".join(table.name for table in metadata.sorted_tables)
    assert found == f"{tables} can't be written"
    assert found_exit_code == exit_code
