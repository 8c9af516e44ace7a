"""The SQL that docs/how-to/postgresql.md gives for a search of vectors, by a real pgvector."""

import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import insert, text

from infer_app.base.domain import ImageRef, Output, Prediction
from infer_app.tables.results.schema import models
from tests.conftest import MODEL
from tests.databases.conftest import only
from tests.support.results import commit

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "postgresql.md"


@only("postgres")
def test_vectors_become_those_of_pgvector_by_the_sql_of_the_docs(database):
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    outputs = [Output(vector=row.tobytes(), vector_dtype="float32") for row in rows]
    commit(database, [Prediction(ImageRef(str(n), f"/{n}.jpg"), output) for n, output in enumerate(outputs)])
    at = datetime(2026, 11, 20)
    model = {"id": MODEL.model_id, "name": "lite0", "manifest": {}, "created_at": at, "in_use_since": at}
    (sql,) = re.findall("```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    bits = np.random.default_rng(0).integers(0, 2**32, 900, dtype=np.uint32).view(np.float32)  # of every size
    numbers = bits[np.isfinite(bits)]
    with database.write() as connection:
        if not connection.scalar(text("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")):
            pytest.skip("this server has no pgvector, which that of the test extra has")
        connection.execute(insert(models), model)
        for statement in re.split(r";\n(?=CREATE|SELECT)", sql):
            found = connection.exec_driver_sql(statement)
        near = [int(image_id) for (image_id,) in found]
        converted = connection.scalar(text("SELECT numbers_of(:stored)"), {"stored": numbers.tobytes()})
    np.testing.assert_array_equal(np.asarray(converted, np.float32), numbers)
    assert near == np.argsort(-rows[:, 0] / np.linalg.norm(rows, axis=1))[:10].tolist()
