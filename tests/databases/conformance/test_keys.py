"""Each picture has one row, whose number is given once; results stand on it and go with it."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from infer_app.base.domain import DetectedObject
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections
from tests.support.results import broken, commit, predicted, stored
from tests.support.second_networks import DOG, LION, D, S, keys
from tests.support.statements import looks_that_wait

CAT = DetectedObject("cat", 0, 0.9, 0, 0, 1, 1)


def test_all_that_names_a_picture_goes_with_its_row(database, detector, species, execute):
    for image_id in ("1", "2"):
        detector.detect(image_id, 0.9, 0.8)
        species.classify(image_id, {0: LION, 1: DOG})
    for model in (detector, species):
        model.reject("3")
    execute("DELETE FROM infer_pictures WHERE id IN (1, 3)")
    found = keys(database, predictions, rejections, objects, object_predictions)
    assert found == [[("2", S), ("2", D)], [], [("2", D, 0), ("2", D, 1)], [("2", S, 0), ("2", S, 1)]]
    execute(f"DELETE FROM infer_predictions WHERE model_id = '{D}'")
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(object_predictions)) == 0


@pytest.mark.parametrize("statement", [
    "INSERT INTO infer_predictions SELECT 9, model_id, run_id, variant, label, score, output, vector, vector_dtype,"
    " vector_dim, sha256, created_at, width, height, num_objects, detector_id FROM infer_predictions",
    "UPDATE infer_rejections SET picture = 9",
    "UPDATE infer_objects SET picture = 9",
    "UPDATE infer_object_predictions SET object_id = 9",
])  # fmt: skip
def test_no_result_names_a_picture_or_an_object_without_a_row(database, detector, species, execute, statement):
    detector.detect("1", 0.9)
    species.classify("1", {0: LION})
    detector.reject("2")
    with pytest.raises(IntegrityError):
        execute(statement)


def test_a_picture_has_one_row(database, register):
    register("/1.jpg")

    def add_again(**changed):
        with database.write() as connection:
            row = connection.execute(select(pictures)).mappings().first()
            connection.execute(insert(pictures), dict(row) | changed)

    with pytest.raises(IntegrityError):
        add_again(id=2, image_id="2")
    add_again(id=2, registered=0)
    with pytest.raises(IntegrityError):
        add_again(registered=0)


def test_two_runs_that_write_a_new_picture_at_once_give_it_one_row(database, url, kind):
    """The second one has looked for rows before the first one commits. SQLite lets it look only afterwards."""
    ids, model_ids = ["1", "2", "3"], ["a", "b"]

    def write(model_id):
        with Database(url) as own:
            commit(own, predicted(*ids), broken("bad"), model_id=model_id, registered=False)

    with looks_that_wait("FROM infer_pictures") as looked, ThreadPoolExecutor(2) as threads:
        list(threads.map(write, model_ids))
    assert (looked.together >= 1) == (kind != "sqlite")
    rows = stored(database, pictures, "id", "location")
    assert {image_id: location for image_id, (_, location) in rows.items()} == {i: f"/{i}.jpg" for i in (*ids, "bad")}
    both = [(str(rows[i][0]), model_id) for i in ids for model_id in model_ids]
    assert keys(database, predictions, rejections, pictures) == [
        sorted(both),
        [(str(rows["bad"][0]), model_id) for model_id in model_ids],
        sorted((str(number),) for number, _ in rows.values()),
    ]


def test_no_number_is_given_twice_though_the_last_row_was_deleted(database):
    numbers, of_objects = [], []
    for name in "abc":
        add_images(database, [Path(f"/{name}.jpg")], datetime(2026, 11, 20))
        commit(database, predicted(name, objects=(CAT, CAT)), registered=False)
        with database.write() as connection:
            numbers += sorted(connection.scalars(select(pictures.c.id)))
            of_objects += sorted(connection.scalars(select(objects.c.id)))
            connection.execute(delete(pictures))
    for given in (numbers, of_objects):
        assert len(given) == 6
        assert given == sorted({*given})
