"""Rows of second networks that no run can have written: the audits of rows and of a day name them."""

from dataclasses import replace

import pytest

from infer_app.base.domain import Output
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.row_audit import audit_rows
from tests.conftest import DAY
from tests.support.second_networks import DOG, LION, SECOND, VECTORS, D, S, StoredModel

MISCOUNTED = "with another number of objects than it counts"
LOST = "without a prediction of its image"
OF_1 = f"image_id = '1' AND model_id = '{S}'"
NO_OBJECT = "of an object that its detector has not found"
NO_RESULT = "of a detector that has no result of the image"
WRONG_VERSION = "without the version of its detector, or with one it has not"
REVERSE = "with a label or score but no object, or the reverse"


@pytest.mark.parametrize(
    ("statement", "faults", "of_day"),
    [
        (f"DELETE FROM infer_object_predictions WHERE {OF_1} AND object = 1", [MISCOUNTED], [MISCOUNTED]),
        (f"DELETE FROM infer_predictions WHERE {OF_1}", [LOST], [LOST, NO_OBJECT]),
        (f"DELETE FROM infer_objects WHERE model_id = '{D}' AND object = 1", [MISCOUNTED, NO_OBJECT], [NO_OBJECT]),
        (f"DELETE FROM infer_predictions WHERE image_id = '2' AND model_id = '{D}'", [NO_RESULT], []),
        (f"DELETE FROM infer_rejections WHERE model_id = '{D}'", [NO_RESULT], []),
        (f"UPDATE infer_predictions SET detector_id = NULL WHERE {OF_1}", [WRONG_VERSION], []),
        (f"UPDATE infer_predictions SET detector_id = 'x' WHERE model_id = '{D}'", [WRONG_VERSION], []),
        ("UPDATE infer_object_predictions SET label = 'Lion'", ["with a label that its model has not"], []),
        ("UPDATE infer_object_predictions SET score = 1.5", ["with a score outside 0 to 1"], []),
        ("UPDATE infer_object_predictions SET label = NULL", ["without a label or score"], []),
        (f"UPDATE infer_predictions SET label = NULL WHERE {OF_1}", [REVERSE], []),
        (f"UPDATE infer_predictions SET size = NULL WHERE {OF_1}", ["without the location or size"], []),
        (f"UPDATE infer_predictions SET size = NULL WHERE image_id = '2' AND detector_id = '{D}'", [], []),
    ],
)
def test_a_row_that_no_run_writes_is_named(database, detector, species, execute, tmp_path, statement, faults, of_day):
    add_images(database, [tmp_path / f"{number}.jpg" for number in range(3)], DAY.start.replace(tzinfo=None))
    for image_id, scores in (("1", (0.9, 0.5)), ("2", ())):
        detector.detect(image_id, *scores)
        species.classify(image_id, dict(enumerate([LION, DOG][: len(scores)])))
    for model in (detector, species):
        model.reject("3")
    vectors = replace(SECOND, name="sizes", model_id="9" * 16, manifest=VECTORS)
    StoredModel(database, vectors, D).predict("2", Output(crops=()))
    queries = ProjectDatabase(database, Source(database, SourceSettings()))

    def found():
        return list(audit_rows(database)), queries.rows.find_problems(DAY, S)

    assert found() == ([], [])
    execute(statement)
    of_rows, problems = found()
    assert faults or (of_rows, problems) == ([], [])
    assert [fault for fault in faults if not any(fault in problem for problem in of_rows)] == []
    assert [fault for fault in of_day if not any(fault in problem for problem in problems)] == []
