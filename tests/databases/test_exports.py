"""Which rows of a day are exported, from each database, and by which numbers."""

import json
from datetime import datetime

import pytest
from sqlalchemy import insert

from infer_app.ask.export.exported_images import Export
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.formats.export_formats import write_export
from infer_app.ask.export.formats.yolo import label_file
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.base.domain import DetectedObject, Reason
from infer_app.base.errors import UsageError
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.queries.thresholds import change_thresholds
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.runs import RunModel
from infer_app.tables.results.schema import ALL_LABELS, models
from tests.conftest import DAY
from tests.support.listings import listed, source_of
from tests.support.results import broken, commit, predicted

AT = datetime(2026, 11, 1, 12)
OLD, NEW, OTHER = "0" * 16, "1" * 16, "d" * 16
CAT, DOG = DetectedObject("cat", 0, 0.1 + 0.2, 0.1, 0.2, 0.3, 0.4), DetectedObject("dög", 1, 0.25, 0.0, 0.0, 1.0, 1.0)


def record(database, name, model_id, day, kind="detection", mark="in_use_since"):
    row = {"id": model_id, "name": name, "manifest": {"output": {"kind": kind}}, "created_at": AT.replace(day=day)}
    with database.write() as connection:
        connection.execute(insert(models), row | {mark: AT.replace(day=day)})


@pytest.fixture
def two_versions(database, register, tables):
    """Image 1 by both versions, 2 by the old one, 3 by none, 4 rejected by both; 5 by the new one and rejected."""
    register(*(f"/p/{number}.jpg" for number in range(1, 6)))
    record(database, "animals", OLD, 1, mark="used_until")
    record(database, "animals", NEW, 2)
    commit(database, predicted(*"12", objects=(CAT, DOG)), broken("4", reason=Reason.TRUNCATED), model_id=OLD)
    commit(database, predicted(*"15", objects=(DOG,)), broken("4"), model_id=NEW)
    commit(database, (), broken("5"), model_id=OLD)
    return tables


def export_of(project, wanted=None, min_score=None, paths=None, days=(DAY,)):
    model = ModelVersions.find(project, days, wanted)
    return Export.of_days(project, days, model, paths or ImagePaths(), min_score)


def numbers_of(export):
    return [(one.prediction.image_id, one.prediction.model_id, len(one.objects)) for one in export.read_images()]


def test_thresholds_hide_no_label_of_a_classification_that_gives_one(tables, database, register):
    """They may be those of a detector of the same name."""
    register("/p/1.jpg")
    record(database, "animals", OLD, 1, kind="classification", mark="used_until")
    record(database, "animals", NEW, 2)
    top = {"top": [{"label": "cat", "index": 0, "score": 0.3}]}
    commit(database, predicted("1", score=0.3, details=json.dumps(top)), model_id=OLD)
    change_thresholds(database, "animals", {ALL_LABELS: 0.5})
    (image,) = export_of(tables, f"animals@{OLD}").read_images()
    assert [one["label"] for one in image.labels] == ["cat"]
    (image,) = export_of(tables, f"animals@{OLD}", min_score=0.5).read_images()
    assert image.labels == ()


def test_each_image_is_exported_once_by_the_preferred_version(two_versions):
    export = export_of(two_versions)
    assert numbers_of(export) == [("1", NEW, 1), ("2", OLD, 2), ("5", NEW, 1)]
    assert [(one.image_id, one.location, one.reason) for one in export.read_rejected()] == [
        ("4", "/p/4.jpg", "corrupt")
    ]
    assert numbers_of(export_of(two_versions, f"animals@{OLD}")) == [("1", OLD, 2), ("2", OLD, 2)]


def test_thresholds_decide_unless_a_score_is_given(two_versions, database):
    change_thresholds(database, "animals", {ALL_LABELS: 0.9, "cat": 0.3})
    assert numbers_of(export_of(two_versions)) == [("1", NEW, 0), ("2", OLD, 1), ("5", NEW, 0)]
    assert numbers_of(export_of(two_versions, min_score=0.25)) == [("1", NEW, 1), ("2", OLD, 2), ("5", NEW, 1)]


def test_of_several_models_one_must_be_named(two_versions, database):
    record(database, "dogs", OTHER, 3, kind="classification")
    assert export_of(two_versions).model.name == "animals"  # the other has predicted nothing
    commit(database, predicted("3", label="dog"), model_id=OTHER)
    with pytest.raises(UsageError, match="several models have predicted images: animals, dogs"):
        export_of(two_versions)
    assert numbers_of(export_of(two_versions, "dogs")) == [("3", OTHER, 0)]


def test_outputs_and_vectors_are_read(register, tables, database, tmp_path):
    register("/p/1.jpg")
    record(database, "vectors", NEW, 1, kind="embedding")
    vector = {"vector": bytes.fromhex("0000803f00000040"), "vector_dtype": "float32", "vector_dim": 2}
    commit(database, predicted("1", label=None, score=None, **vector), model_id=NEW)
    write_export("jsonl", tmp_path / "a.jsonl", export_of(tables))
    line = json.loads((tmp_path / "a.jsonl").read_text())
    assert (line["vector"], line["label"], line["output"], line["sha256"]) == ([1, 2], None, {}, "ab" * 32)
    with pytest.raises(UsageError, match="embedding outputs, which have no scores"):
        export_of(tables, min_score=0.5)


def test_versions_of_several_kinds_are_told_apart(two_versions, database):
    record(database, "animals", OTHER, 3, kind="classification", mark="used_until")
    assert export_of(two_versions).model.kind == "detection"
    commit(database, predicted("3", label="dog"), model_id=OTHER)
    with pytest.raises(UsageError, match=r"animals give several kinds of output: .*, animals@11111111 \(detection\)"):
        export_of(two_versions)


def test_no_number_of_an_image_or_a_class_ever_moves(database, execute, tmp_path):
    """Not with the version in use, another prediction, another day, or a version that runs again or is only tried."""
    execute("CREATE TABLE shots (id VARCHAR(40) PRIMARY KEY, location VARCHAR(40), added_at TIMESTAMP)")
    settings = SourceSettings(table="shots", time_zone="UTC")
    project = ProjectDatabase(database, source_of(database, settings))
    labels = {OLD: ("cat", "dog"), NEW: ("bird", "dog", "cat"), OTHER: ("fish", "bird")}
    images, classes = {}, {}

    def predict(model_id, **labels_by_image):
        manifest = {"output": {"kind": "detection"}, "labels": labels[model_id]}
        model = RunModel("animals", model_id, "v", manifest)
        run_id = project.run_store.open_run(DAY, model)
        project.run_store.fail_run(run_id, 1, "")
        for image, label in labels_by_image.items():
            at = datetime(2026, 11, 21 if image == "late" else 20, 12)
            row = {"id": image, "location": f"/{image}.jpg", "at": at}
            execute(("INSERT INTO shots VALUES (:id, :location, :at)", [row]))
            listed(database, settings)
            one = DetectedObject(label, labels[model_id].index(label), 0.5, 0.1, 0.1, 0.2, 0.2)
            commit(database, predicted(image, objects=(one,)), model_id=model_id, registered=False)

    def check(tag, day=DAY, wanted="animals"):
        """Each file agrees with the rows, and numbers what others have numbered as they have."""
        export = export_of(project, wanted, days=[day])
        for name in ("coco", "yolo"):
            write_export(name, tmp_path / f"{tag}-{name}", export)
        dataset = json.loads((tmp_path / f"{tag}-coco").read_text())
        for known, pairs in (
            (images, [(one["file_name"], one["id"]) for one in dataset["images"]]),
            (classes, [(one["name"], one["id"]) for one in dataset["categories"]]),
        ):
            assert {key: known.setdefault(key, number) for key, number in pairs} == dict(pairs)
            assert len(set(known.values())) == len(known)
        listed = [(one.path, one.objects[0].label) for one in export.read_images()]
        numbered = [(images[path], classes[label]) for path, label in listed]
        assert [(one["image_id"], one["category_id"]) for one in dataset["annotations"]] == numbered
        names = (tmp_path / f"{tag}-yolo" / "classes.txt").read_text().splitlines()
        assert [classes[name] for name in names] == list(range(1, len(names) + 1))
        for path, label in listed:
            line = (tmp_path / f"{tag}-yolo" / "labels" / label_file(path)).read_text()
            assert names[int(line.split()[0])] == label

    predict(OLD, b="dog", c="cat")
    check("first")
    predict(OTHER, a="bird")
    predict(NEW, a2="bird", late="cat")
    check("tried")
    switch_version(database, "animals", NEW, {})
    check("switched")
    check("next-day", DAY.before(-1))
    predict(OLD, c2="cat")
    check("again")
    check("named", wanted=f"animals@{NEW}")
    switch_version(database, "animals", OTHER, {})
    check("switched-again")
    assert classes == {"cat": 1, "dog": 2, "fish": 3, "bird": 4}
