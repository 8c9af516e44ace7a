from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infer_app.ask.export.formats.parquet import write_parquet
from infer_app.ask.export.formats.tables import read_rows
from infer_app.base.errors import UsageError
from infer_app.base.packages import install
from tests.support.exports import CAT, DOG, HOSTILE, HOSTILE_PATH, detected, export_of, with_output


def read(path, *images, **options):
    write_parquet(path, export_of(*images, **options))
    return pq.read_table(path)


def test_objects_are_read_back_with_their_types_from_groups_of_rows(tmp_path):
    images = detected("1", CAT, DOG), detected("2"), detected("3", CAT, DOG)
    write_parquet(tmp_path / "a.parquet", export_of(*images), group_rows=2)
    table = pq.read_table(tmp_path / "a.parquet")
    assert [tuple(row.values()) for row in table.to_pylist()] == list(read_rows(export_of(*images)))
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 3
    types = {field.name: field.type for field in table.schema}
    assert (types["date"], types["object"], types["xmax"]) == (pa.date32(), pa.int32(), pa.float64())


def test_vectors_are_lists_of_a_fixed_size(tmp_path):
    vectors = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    images = [with_output(str(n), vector=vector.tolist()) for n, vector in enumerate(vectors)]
    table = read(tmp_path / "a.parquet", *images, with_output("none"), kind="embedding")
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 5)
    *found, missing = table["vector"].to_pylist()
    assert np.array_equal(np.array(found, np.float32), vectors)
    assert missing is None
    assert table["created_at"][0].as_py() == datetime(2026, 11, 21, 3, 0, 0, 500, UTC)
    assert table["date"][0].as_py() == date(2026, 11, 20)


def test_vectors_of_several_lengths_are_refused(tmp_path):
    images = with_output("1", vector=[1.0, 2.0]), with_output("2", vector=[1.0])
    with pytest.raises(UsageError, match="several lengths"):
        write_parquet(tmp_path / "a.parquet", export_of(*images, kind="embedding"))
    assert list(tmp_path.iterdir()) == []


def test_hostile_labels_and_paths_are_read_back(tmp_path):
    [row] = read(tmp_path / "a.parquet", detected("1", CAT._replace(label=HOSTILE), location=HOSTILE_PATH)).to_pylist()
    assert (row["location"], row["label"]) == (HOSTILE_PATH.replace("\udcff", "\\udcff"), HOSTILE)


def test_without_pyarrow_the_extra_is_named(tmp_path, installed):
    installed.remove("pyarrow")
    with pytest.raises(UsageError) as refused:
        write_parquet(tmp_path / "a.parquet", export_of())
    assert refused.value.hint == install("parquet")
