"""docs/how-to/networks.md has the networks that `make networks` runs, and the figures that it wrote."""

import re
import tomllib

import pytest

from infer_app.artifact.description import Description
from tests.networks.rows import PROGRAMS, ROOT, page_rows, result_figures

MODEL_FILES = ROOT / "docs" / "networks"


def test_each_row_has_a_program_and_a_model_file_and_each_of_these_a_row():
    named = sorted(row.name for row in page_rows())
    assert named == sorted(path.stem for path in PROGRAMS.glob("*.py"))
    assert named == sorted(path.stem for path in MODEL_FILES.glob("*.toml"))


def test_the_figures_of_the_page_are_those_of_the_last_run():
    assert {row.name: row.figure for row in page_rows()} == result_figures()


@pytest.mark.parametrize("row", page_rows(), ids=lambda row: row.name)
def test_packages_have_a_version_and_the_model_file_names_the_network(row):
    described = tomllib.loads((MODEL_FILES / f"{row.name}.toml").read_text())
    assert [package for package in row.packages if "==" not in package] == []
    assert described["source"] == row.file.rpartition("/")[2]
    assert described["name"] == row.name
    assert set(described) <= set(Description.model_fields)


def test_what_model_files_name_lies_beside_them():
    functions = re.findall(
        r'^(?:head|preprocess) = "(\w+):(\w+)"', "\n".join(map(_text, MODEL_FILES.glob("*.toml"))), re.M
    )
    assert [name for name, function in functions if f"def {function}(" not in _text(MODEL_FILES / f"{name}.py")] == []
    assert {name for name, _ in functions} == {path.stem for path in MODEL_FILES.glob("*.py")}


def _text(path):
    return path.read_text()
