import re
import sqlite3

import pytest

from infer_app.cli.project.project import upgrade
from infer_app.cli.project.proposal import init_from
from infer_app.database.project_database import open_project_database
from infer_app.domain import ImageRef
from infer_app.errors import DatabaseUnavailable
from infer_app.settings.load import load_settings
from tests.conftest import DAY


@pytest.fixture
def init(tmp_path, capsys):
    """init(location, …): what `infer init --database` says of a table with these locations."""

    def propose(*locations):
        with sqlite3.connect(tmp_path / "lab.db") as connection:
            connection.execute('CREATE TABLE "the shots" (nr INTEGER PRIMARY KEY, path TEXT, "came on" TEXT)')
            for location in locations:
                connection.execute('INSERT INTO "the shots" (path, "came on") VALUES (?, \'2026-11-20\')', [location])
        init_from(f"sqlite:///{tmp_path / 'lab.db'}", folder=tmp_path)
        return capsys.readouterr().out

    return propose


def test_relative_locations_get_a_query_that_makes_them_absolute(init, tmp_path):
    told = init("a.jpg", "2026/b.jpg")
    assert "locations such as a.jpg are no absolute paths" in told
    query, roots = re.search(r"\[source\] (query = .*)\n +\[images\] (roots = .*)", told).groups()
    config = tmp_path / "infer.toml"
    written = config.read_text().replace("\n[source]\n", f"\n[source]\n{query}\n").replace("roots = []", roots)
    config.write_text(written)
    loaded = load_settings(config)
    upgrade(None, config)
    with open_project_database(loaded, read_only=True) as project:
        found = list(project.source.select_new(DAY, ""))
    assert found == [ImageRef("1", "/srv/photos/a.jpg"), ImageRef("2", "/srv/photos/2026/b.jpg")]
    assert [str(root) for root in loaded.roots] == ["/srv/photos"]


@pytest.mark.parametrize(
    ("locations", "said"),
    [
        (["s3://shots/a.jpg", "/srv/b.jpg"], '[remote] allow = ["s3://shots/"]'),
        (["/a.jpg", "/srv/b.jpg"], "no folder in common: name those that may be read in [images] roots"),
    ],
)
def test_what_has_no_folder_is_told_how_to_allow_it(init, locations, said):
    told = init(*locations)
    assert said in told
    assert "query" not in told


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path):
    with pytest.raises(DatabaseUnavailable, match=r"nothere\.db does not exist"):
        init_from(f"sqlite:///{tmp_path / 'nothere.db'}", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
