import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.project.doctor import examine
from infer_app.cli.project.project import upgrade, write_config
from infer_app.cli.project.proposal import init_from
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.read.refusals import SET_BASE
from infer_app.tables.project_database import read_limits


@pytest.fixture
def init(tmp_path, capsys):
    """init(location, …): what `infer init --database` says of a table with these locations."""

    def propose(*locations):
        with closing(sqlite3.connect(tmp_path / "lab.db")) as connection, connection:
            connection.execute('CREATE TABLE "the shots" (nr INTEGER PRIMARY KEY, path TEXT, "came on" TEXT)')
            for location in locations:
                connection.execute('INSERT INTO "the shots" (path, "came on") VALUES (?, \'2026-11-20\')', [location])
        init_from(f"sqlite:///{tmp_path / 'lab.db'}", folder=tmp_path)
        return capsys.readouterr().out

    return propose


def test_relative_locations_are_resolved_against_the_folder_that_has_their_files(init, tmp_path):
    for name in ("x/decoy/a.jpg", "x/shots/a.jpg", "x/shots/2026/b.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    told = init("a.jpg", "2026/b.jpg", "c.jpg")
    assert 'locations are relative: [source] base = "x/shots" is where their files were found' in told
    assert told.count("not found") == 1
    loaded = load_settings(tmp_path / "infer.toml")
    assert loaded.roots == (tmp_path / "x/shots",)
    assert read_image("2026/b.jpg", read_limits(loaded)).data == b"1"  # as it is recorded


def test_relative_locations_without_files_get_a_commented_base_and_the_words_of_doctor(init, tmp_path, capsys):
    told = init("a.jpg", "2026/b.jpg")
    assert f"locations such as a.jpg are relative, and no folder here has their files: {SET_BASE}" in told
    assert '# base = "/srv/photos"' in (tmp_path / "infer.toml").read_text()
    upgrade(tmp_path / "infer.toml")
    assert examine(None, False, tmp_path / "infer.toml") == 2
    assert f"fix: {SET_BASE}" in capsys.readouterr().out


def test_the_roots_that_are_set_already_are_searched_too(init, tmp_path, monkeypatch):
    elsewhere = tmp_path / "far/away/from/all/of/it"
    elsewhere.mkdir(parents=True)
    (elsewhere / "a.jpg").write_bytes(b"1")
    monkeypatch.setenv("INFER_IMAGES__ROOTS", str(elsewhere))
    assert 'base = "far/away/from/all/of/it"' in init("a.jpg")


def test_an_infer_toml_that_differs_is_kept_and_shown_and_ends_in_an_error(init, tmp_path, capsys):
    config = tmp_path / "infer.toml"
    write_config(tmp_path)
    before = config.read_text()
    with pytest.raises(UsageError, match=r"infer\.toml exists and differs in 6 lines") as caught:
        init("/srv/photos/a.jpg")
    assert 'has       no table\n    proposed  table = "the shots"' in capsys.readouterr().out
    assert config.read_text() == before
    _, old, new = shlex.split(caught.value.hint.split("`")[1])
    Path(old).rename(new)
    for _ in range(2):
        init_from(f"sqlite:///{tmp_path / 'lab.db'}", folder=tmp_path)
    assert "exists and says the same" in capsys.readouterr().out  # nothing to do


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[database]\nurl = "postgresql://me:geheim@host/lab"\n', "exists and differs"),
        ("[database\n", "exists and can't be read"),
    ],
)
def test_an_infer_toml_that_differs_is_not_replaced_and_its_password_not_shown(init, tmp_path, capsys, text, message):
    (tmp_path / "infer.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        init("/srv/photos/a.jpg")
    assert (tmp_path / "infer.toml").read_text() == text
    assert "geheim" not in capsys.readouterr().out


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
    with pytest.raises(DatabaseUnavailable, match=r"nothere\.db does not exist") as caught:
        init_from(f"sqlite:///{tmp_path / 'nothere.db'}", folder=tmp_path)
    assert "`infer init` without --database" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
