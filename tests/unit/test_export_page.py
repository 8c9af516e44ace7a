"""docs/how-to/export.md has the programs that `make readers` runs, in the versions that it installs."""

from datetime import date

import pytest

from tests.networks.answers import load_program
from tests.readers.rows import PROGRAMS, page_rows


def test_each_row_has_a_program_and_each_program_a_row():
    assert sorted(row.name for row in page_rows()) == sorted(path.stem for path in PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("row", page_rows(), ids=lambda row: row.name)
def test_the_version_of_the_page_is_the_one_that_is_installed_and_the_day_is_a_date(row):
    packages = load_program(PROGRAMS / f"{row.name}.py").PACKAGES
    assert row.package in packages
    assert [one for one in packages if "==" not in one] == []
    assert date.fromisoformat(row.date) <= date.today()
