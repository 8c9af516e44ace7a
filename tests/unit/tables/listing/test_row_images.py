"""Images in a column of SQLite, whose columns hold values of any type."""

import hashlib
import sqlite3
from contextlib import closing

import pytest

from infer_app.base.domain import ROW, FileFacts, Reason
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.sections import SourceSettings
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from infer_app.tables.listing.row_images import RowReader

COLUMNS = {"untyped": "id", "integer": "id INTEGER", "text": "id TEXT"}


@pytest.fixture
def read(tmp_path):
    """read(declaration, ids, id): what a worker reads of that id, where each row holds its own id."""

    def read_one(declaration, ids, image_id, as_stored=str.encode):
        file = tmp_path / "scans.db"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"CREATE TABLE scans ({declaration}, picture BLOB, came TEXT)")
            rows = [(value, as_stored(repr(value))) for value in ids]
            connection.executemany("INSERT INTO scans VALUES (?, ?, '2026-11-20')", rows)
        reader = RowReader(f"sqlite:///{file}", SourceSettings(table="scans", bytes="picture", time="came"))
        try:
            return read_image(f"{ROW}{image_id}@2026-11-20", ReadLimits((), 1 << 20, rows=reader)).data
        finally:
            reader._open[0].close()  # a worker's ends with it

    return read_one


@pytest.mark.parametrize("declaration", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("image_id", ["scan-7", "9" * 30, "1_7", " 17", "017", "١٧", "", "\x00"])
def test_an_id_that_no_row_has_is_not_found_beside_ids_that_are_numbers(read, declaration, image_id):
    with pytest.raises(BadImage) as caught:
        read(declaration, [17, 18], image_id)
    assert caught.value.reason is Reason.NOT_FOUND


@pytest.mark.parametrize("image_id", ["17", "scan-7", "18", "1_7", "9" * 30])
@pytest.mark.parametrize("ids", [[17, "scan-7", "18", "1_7", "9" * 30], ["scan-7", 17, "18", "1_7", "9" * 30]])
def test_each_id_of_an_untyped_column_is_read_whatever_type_the_first_has(read, ids, image_id):
    assert read("id", ids, image_id) == repr(17 if image_id == "17" else image_id).encode()


def test_text_in_a_column_of_pictures_is_no_image_and_has_a_checksum(read):
    """As every rejection that was found in the bytes has."""
    with pytest.raises(BadImage) as caught:
        read("id", ["a"], "a", as_stored=str)
    assert caught.value.reason is Reason.UNSUPPORTED_FORMAT
    assert caught.value.facts == FileFacts(size=3, sha256=hashlib.sha256(b"'a'").hexdigest())
