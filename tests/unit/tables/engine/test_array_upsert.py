"""What a run writes to PostgreSQL is sent as arrays, of whatever type a column is."""

from datetime import datetime

import pytest
from sqlalchemy.dialects import postgresql

from infer_app.tables.engine.array_upsert import TIMESTAMP, ArrayUpsert, binary_array
from infer_app.tables.results.schema import object_predictions, objects, pictures, predictions, rejections


@pytest.mark.parametrize("table", [pictures, predictions, rejections, objects, object_predictions], ids=str)
def test_each_column_of_what_a_run_writes_can_be_sent(table):
    upsert = ArrayUpsert(postgresql.dialect(), table, lambda names, rows: rows)
    sent = str(upsert._rows([column.name for column in table.columns], ()))
    assert sent.count("unnest(") == len(table.columns)


def test_times_are_sent_in_microseconds_since_2000():
    content = bytes(binary_array([datetime(2000, 1, 1, 0, 0, 1, 7), datetime(1999, 12, 31, 23, 59, 59)], TIMESTAMP))
    assert [int.from_bytes(content[at : at + 8], "big", signed=True) for at in (24, 36)] == [1_000_007, -1_000_000]
