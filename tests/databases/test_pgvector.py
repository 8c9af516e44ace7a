"""Vectors in pgvector's type: written, read, converted and searched by a real extension."""

from __future__ import annotations

import numpy as np
import pytest
from sqlalchemy import literal, make_url, select, text

from infer_app.database.figures.disagreement import Disagreement
from infer_app.database.listing.source import Source
from infer_app.database.queries.image_history import read_history
from infer_app.database.results import migrate, pgvector
from infer_app.database.results.conditions import ListedPicture
from infer_app.database.results.dry_run_database import open_dry_run_database
from infer_app.database.results.pgvector import store_vectors
from infer_app.database.results.runs import RunStore
from infer_app.database.results.schema import object_predictions, predictions
from infer_app.domain import CropOutput, ImageRef, Output, Prediction, Reason
from infer_app.errors import DayHeld, UsageError
from infer_app.settings.sections import SourceSettings
from tests.conftest import DAY, MODEL
from tests.support.results import commit, stored

NAMES = ("vector", "vector_dtype", "vector_dim")


@pytest.fixture
def with_extension(execute, kind):
    if kind != "postgres":
        pytest.skip("PostgreSQL alone has pgvector")
    execute("CREATE EXTENSION vector")


def any_floats(count, seed=0):
    """Of every size that a float32 has."""
    bits = np.random.default_rng(seed).integers(0, 2**32, 4 * count, dtype=np.uint32).view(np.float32)
    return bits[np.isfinite(bits)][:count]


def embedded(vectors, dtype="float32"):
    """A prediction for each, its id the place."""
    return tuple(
        Prediction(ImageRef(str(place), ""), Output(vector=v.tobytes(), vector_dtype=dtype, vector_dim=v.size))
        for place, v in enumerate(vectors)
    )


def test_vectors_are_kept_to_the_last_bit_by_either_type_and_from_one_to_the_other(
    database, with_extension, monkeypatch
):
    monkeypatch.setattr(pgvector, "BATCH", 7)
    vectors = [any_floats(64, seed) for seed in range(20)]
    expected = {str(place): (vector.tobytes(), "float32", 64) for place, vector in enumerate(vectors)}
    commit(database, embedded(vectors))
    commit(database, [Prediction(ImageRef("none", ""), Output("cat", 0.5))])
    before = {**expected, "none": (None, None, None)}
    assert store_vectors(database, "pgvector") == 20
    assert stored(database, predictions, *NAMES) == before
    assert store_vectors(database, "pgvector") == 0
    commit(database, embedded(vectors[::-1]))
    commit(database, [Prediction(ImageRef("none", ""), Output("cat", 0.5))])
    turned = {str(place): (vector.tobytes(), "float32", 64) for place, vector in enumerate(vectors[::-1])}
    assert stored(database, predictions, *NAMES) == {**turned, "none": (None, None, None)}
    assert store_vectors(database, "bytes") == 20
    assert stored(database, predictions, *NAMES) == {**turned, "none": (None, None, None)}
    commit(database, embedded(vectors))
    assert stored(database, predictions, *NAMES) == before


def test_vectors_of_objects_have_the_type_of_those_of_images(database, with_extension, monkeypatch):
    monkeypatch.setattr(pgvector, "BATCH", 2)
    vectors = [any_floats(64, seed) for seed in range(5)]
    crops = tuple(CropOutput(place, one.output) for place, one in enumerate(embedded(vectors)))
    good = Prediction(ImageRef("1", ""), Output(crops=crops))

    def written():
        with database.read() as connection:
            rows = connection.execute(select(object_predictions).order_by(object_predictions.c.object)).all()
        return [(row.object, row.vector, row.vector_dtype) for row in rows]

    commit(database, [good])
    kept = [(place, vector.tobytes(), "float32") for place, vector in enumerate(vectors)]
    for storage in ("pgvector", "bytes"):
        assert store_vectors(database, storage) == 5
        assert written() == kept
        commit(database, [good])
        assert written() == kept
        migrate.check_schema(database)


def test_half_precision_is_kept_as_float32(database, with_extension):
    halves = [np.array([1.5, -0.1, 65504, 6e-8], np.float16)]
    expected = {"0": (halves[0].astype("<f4").tobytes(), "float32", 4)}
    commit(database, embedded(halves, "float16"))
    store_vectors(database, "pgvector")
    assert stored(database, predictions, *NAMES) == expected
    commit(database, embedded(halves, "float16"))
    assert stored(database, predictions, *NAMES) == expected


def test_the_database_finds_what_is_near_by_an_index(database, with_extension, register, execute):
    register(*[f"/{number}.jpg" for number in range(3)])
    store_vectors(database, "pgvector")
    ids = [ref.image_id for ref in Source(database, SourceSettings()).select_new(DAY, MODEL.model_id)]
    RunStore(database).open_run(DAY, MODEL)
    for place, (image_id, vector) in enumerate(zip(ids, [(1, 0), (0.9, 0.1), (0, 1)], strict=True)):
        (one,) = embedded([np.array(vector, np.float32)])
        commit(database, [Prediction(ImageRef(image_id, f"/{place}.jpg"), one.output)])
    execute(
        "CREATE INDEX near ON infer_predictions USING hnsw ((vector::vector(2)) vector_cosine_ops)"
        f" WHERE model_id = '{MODEL.model_id}'"
    )
    nearest = (
        "SELECT image_id FROM infer_current_predictions"
        f" WHERE model_id = '{MODEL.model_id}' ORDER BY vector::vector(2) <=> '[1, 0.1]' LIMIT 2"
    )
    with database.read() as connection:
        assert connection.scalars(text(nearest)).all() == [ids[1], ids[0]]
    picture = ListedPicture(literal(ids[0]))
    (history,) = read_history(database, [("stub", MODEL.model_id)], picture)
    assert history.prediction["vector"] == np.array([1, 0], "<f4").tobytes()
    sides = Disagreement(database, Source(database, SourceSettings()), DAY, MODEL.model_id, MODEL.model_id)
    assert [row["vector_a"] == row["vector_b"] for row in sides.pairs()] == [True] * 3


def test_what_pgvector_refuses_costs_its_own_row(database, with_extension):
    store_vectors(database, "pgvector")
    written = commit(database, embedded([np.zeros(8, np.float32), np.zeros(16_001, np.float32)]))
    assert [prediction.ref.image_id for prediction in written.predictions] == ["0"]
    (broken,) = written.broken
    assert broken.reason == Reason.WRITE_ERROR
    assert "16000 dimensions" in broken.detail


def test_a_rehearsal_writes_the_type_that_a_run_would(database, with_extension):
    store_vectors(database, "pgvector")
    with open_dry_run_database(database) as rehearsal:
        assert len(commit(rehearsal, embedded([any_floats(8)])).predictions) == 1
    assert stored(database, predictions) == {}


def test_a_run_at_work_keeps_its_vectors_as_they_are(database, with_extension):
    RunStore(database).open_run(DAY, MODEL)
    with pytest.raises(DayHeld, match="a run is active"):
        store_vectors(database, "pgvector")
    with database.write() as connection:
        connection.execute(text("UPDATE infer_runs SET state = 'done'"))
    assert store_vectors(database, "pgvector") == 0


RIGHTS = """
SELECT r.rolname, a.privilege_type, a.is_grantable FROM pg_class c, aclexplode(c.relacl) a
LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE c.relname IN ('infer_current_predictions', 'infer_current_crops')
UNION ALL
SELECT r.rolname, a.privilege_type || ' ' || c.relname || '.' || t.attname, a.is_grantable
FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
LEFT JOIN pg_roles r ON r.oid = a.grantee WHERE c.relname LIKE 'infer_%'
UNION ALL
SELECT pg_get_userbyid(relowner), 'owns', false FROM pg_class WHERE relname LIKE 'infer_current_%'
UNION ALL
SELECT unnest(reloptions), 'is set', false FROM pg_class WHERE relname LIKE 'infer_current_%'
"""


def test_whoever_may_read_the_view_and_the_vectors_still_may_after_they_were_converted(
    database, with_extension, add_role, execute
):
    owner, reader = (quoted_name(make_url(add_role()).username) for _ in range(2))
    execute(
        f"GRANT CREATE ON SCHEMA public TO {owner}",
        f"ALTER VIEW infer_current_predictions OWNER TO {owner}",
        f"GRANT SELECT ON infer_current_predictions TO {reader} WITH GRANT OPTION",
        "GRANT SELECT (label, vector) ON infer_current_predictions TO PUBLIC",
        f"GRANT SELECT (image_id, vector) ON infer_predictions TO {reader}",
        f"GRANT SELECT ON infer_current_crops TO {reader}",
        "ALTER VIEW infer_current_predictions SET (security_barrier = true, security_invoker = true)",
    )
    before = rights(database)
    assert [quoted_name(right[0]) for right in before if right[0]].count(reader) == 4
    store_vectors(database, "pgvector")
    assert rights(database) == before
    store_vectors(database, "bytes")
    assert rights(database) == before


def quoted_name(role):
    return '"' + role.replace('"', '""') + '"'


def rights(database):
    with database.read() as connection:
        return sorted((tuple(row) for row in connection.execute(text(RIGHTS))), key=repr)


def test_a_database_that_can_not_is_told_apart(database, kind):
    assert store_vectors(database, "bytes") == 0
    with pytest.raises(UsageError, match="no extension pgvector" if kind == "postgres" else "only PostgreSQL"):
        store_vectors(database, "pgvector")
