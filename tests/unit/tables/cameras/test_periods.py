from datetime import datetime

import pytest

from infer_app.base.errors import UsageError
from infer_app.tables.cameras.periods import CameraPeriod, read_table

EXPECTED = CameraPeriod(camera="cam1", since=datetime(2026, 11, 15, 11), latitude=52.5163, longitude=-13.4)


@pytest.mark.parametrize(
    "text",
    [
        "camera,from,latitude,longitude\ncam1,2026-11-15 11:00,52.5163,-13.4\n",
        "camera;from;latitude;longitude\r\ncam1;2026-11-15 11:00;52,5163;-13,4\r\n",
    ],
    ids=["commas", "semicolons"],
)
def test_a_table_is_read_as_spreadsheets_write_it(tmp_path, text):
    (tmp_path / "cameras.csv").write_text(text)
    assert read_table(tmp_path / "cameras.csv") == [EXPECTED]


def test_a_time_in_another_form_has_a_hint_that_fits(tmp_path):
    (tmp_path / "cameras.csv").write_text("camera;from\ncam1;15.11.2026\n")
    with pytest.raises(UsageError, match="line 2: from: Input should be a valid datetime") as caught:
        read_table(tmp_path / "cameras.csv")
    assert caught.value.hint == "write it as 2026-11-20, or 2026-11-20 11:00"


@pytest.mark.parametrize("text", ["latitude\na,52.5", "longitude\na,13.4"])
def test_a_latitude_or_longitude_alone_is_refused(tmp_path, text):
    (tmp_path / "cameras.csv").write_text(f"camera,{text}\n")
    with pytest.raises(UsageError, match="a line of a has one coordinate") as caught:
        read_table(tmp_path / "cameras.csv")
    assert caught.value.hint == "give latitude and longitude, or none"
