from datetime import datetime

import numpy as np
import pytest

from infer_app.tables.listing.listed_rows import ListedRows, find_sorted


@pytest.mark.parametrize(
    ("known", "wanted", "found"),
    [
        ([], [], []),
        ([], [1, 2], [False, False]),
        ([1], [], []),
        ([-5, 3, 9], [9, -6, 3, 4, 10, 3], [True, False, True, False, False, True]),
    ],
)
def test_each_key_is_found_at_its_place_or_not_at_all(known, wanted, found):
    keys = np.array(known, np.int64)
    places, is_known = find_sorted(keys, wanted)
    assert is_known.tolist() == found
    assert keys[places[is_known]].tolist() == [key for key in wanted if key in known]


def test_rows_differ_by_time_and_by_camera():
    rows = ListedRows(np.array([(7, 70, 1), (-7, 71, 2), (8, 72, 3), (9, 73, 4)], ListedRows.TYPE), None, datetime.max)
    assert rows.differing([8, 7, -7, 6], [72, 70, 99, 72], [3, 99, 2, 3]) == [False, True, True, True]
    keys = [-7, 6, 7, 8, 9]
    assert [key for key in keys if rows.has(key)] == [-7, 7, 8, 9]
    assert [key for key in keys if rows.is_at_time(key)] == [7, 8]
    assert [key for key in keys if rows.is_same(key)] == [8]
    assert rows.unseen().tolist() == [-7, 9]


def test_of_no_listed_rows_all_rows_differ():
    rows = ListedRows(np.array([], ListedRows.TYPE), datetime(2026, 11, 20), datetime(2026, 11, 21))
    assert rows.differing([1, 2], [1, 2], [1, 2]) == [True, True]
    assert not rows.has(1)
    assert [rows.covers(datetime(2026, 11, day)) for day in (19, 20, 21)] == [False, True, False]
    assert rows.unseen().tolist() == []
