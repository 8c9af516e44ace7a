"""One row whose time is none costs that row, on each database; a column that can't be a time is refused."""

import pytest

from tests.databases.test_same_picture import paint, pictures  # noqa: F401
from tests.support.projects import DATE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
AT = f"{DATE} 10:00:00"
KINDS = {  # types of a column, with values in it that are no times
    "sqlite": {
        "TEXT": (
            "''",
            "'n/a'",
            "'2026-13-45'",
            "'0000-00-00'",
            "x'00ff'",
            "'0001-01-01'",
            "'9999-12-31'",
            "5",
            "'2026/11/20 10:00'",
        )
    },
    "postgres": {
        "TIMESTAMPTZ": ("'infinity'", "'-infinity'", "'12026-11-20 10:00'", "'0044-03-15 BC'", "'0001-01-01'"),
        "TIMESTAMP": ("'infinity'", "'-infinity'", "'12026-11-20 10:00'", "'0044-03-15 BC'", "'9999-12-31 23:59'"),
    },
    "mariadb": {"DATETIME": ("'0000-00-00'", "'2026-00-00'", "'9999-12-31 23:59:59'")},
}
NO_TIMES = {"sqlite": ("INTEGER", "17"), "postgres": ("BIGINT", "17"), "mariadb": ("VARCHAR(9)", "'soon'")}


def fill(project, time, odd, good):
    """A table whose first and last rows have these times, with a good one between them if there is one."""
    values = []
    for number, value in enumerate([*odd, *good, *odd]):
        paint(photo := project.photos / f"{number}.png", 90 + number)
        values.append(f"({number}, '{photo}', {value})")
    project.execute(
        *(["SET sql_mode = ''"] if "maria" in project.url else []),
        "DROP TABLE IF EXISTS shots",
        f"CREATE TABLE shots (id INTEGER, path VARCHAR(300), taken {time})",
        f"INSERT INTO shots VALUES {', '.join(values)}",
    )


def test_a_row_whose_time_is_none_costs_that_row_alone(pictures, kind):  # noqa: F811
    for time, odd in KINDS[kind].items():
        fill(pictures, time, odd, [f"'{AT}'"])
        assert pictures.run_day()["day"]["predicted"] == 1
        assert pictures.run_day()["selected"] == 0
        for command in (("status",), ("list",), ("verify", "--date", DATE), ("explain", "--image", "0")):
            assert "a bug" not in pictures.infer(*command) + pictures.errors
        assert "images have no readable time" in pictures.infer("doctor")
        later = pictures.infer_json("run", "--date", "2026-12-31", "--lookback", "0")
        assert later["selected"] == 2 * ("'2026-13-45'" in odd)  # of the last day of its year; 2026/11/20 of none
        pictures.infer("forget", "--missing", "--yes")


def test_a_column_that_can_not_be_a_time_is_refused(pictures, kind):  # noqa: F811
    time, value = NO_TIMES[kind]
    fill(pictures, time, [value], [])
    for command in (("run",), ("doctor",), ("run", "--date", DATE)):
        assert "is not a time" in pictures.infer(*command, exit_code=2) + pictures.errors
