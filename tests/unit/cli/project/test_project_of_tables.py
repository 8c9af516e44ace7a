"""`infer init --database`, and what `infer doctor` says once its lines are uncommented."""

import re
import sqlite3
from contextlib import closing

import pytest

from infer_app.base.errors import DatabaseUnavailable, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.project.doctor import examine
from infer_app.cli.project.project import init_from, upgrade
from infer_app.predict.images.read.refusals import SET_BASE


@pytest.fixture
def init(tmp_path, capsys):
    """init(location, …): what `infer init --database` says of a table with these locations, each of another day."""

    def write(*locations):
        with closing(sqlite3.connect(tmp_path / "lab.db")) as connection, connection:
            connection.execute('CREATE TABLE "the shots" (nr INTEGER PRIMARY KEY, path TEXT, "came on" TEXT)')
            connection.execute("CREATE TABLE thumbs (id INTEGER PRIMARY KEY, file TEXT)")
            connection.execute("INSERT INTO thumbs (file) VALUES ('\x7f.webp')")
            rows = [(location, f"2026-11-{day}") for day, location in enumerate(locations, 11)]
            connection.executemany('INSERT INTO "the shots" (path, "came on") VALUES (?, ?)', rows)
        init_from(f"sqlite:///{tmp_path / 'lab.db'}", folder=tmp_path)
        return capsys.readouterr().out

    return write


@pytest.fixture
def doctor(tmp_path, capsys):
    """doctor(id=…): what `infer doctor` says of the first table once these keys are uncommented and filled in."""

    def ask(**keys):
        config = tmp_path / "infer.toml"
        text = config.read_text().replace('# table = "the', 'table = "the')
        for key, value in keys.items():
            text = re.sub(rf'^#? ?{key} = "[^"]*"', f'{key} = "{value}"', text, count=1, flags=re.MULTILINE)
        config.write_text(text)
        upgrade(config)
        examine(None, False, config)
        return capsys.readouterr().out

    return ask


def test_nothing_is_chosen_until_somebody_fills_it_in_and_doctor_says_what_is_missing(init, doctor, tmp_path):
    assert "fill in [source]: names of pictures are in the shots, thumbs" in init("/srv/a.jpg")
    lines = (tmp_path / "infer.toml").read_text().splitlines()
    first = lines.index('# table = "the shots"')
    assert lines[first + 1 : first + 3] == [
        '# id = ""  # its columns: nr, path, came on',
        '# location = ""  # names of pictures: path (/srv/a.jpg)',
    ]
    assert load_settings(tmp_path / "infer.toml").source.model_fields_set == set()
    missing = "[source] id is not set, location = 'pth' is not a column of the shots, time is not set"
    told = doctor(id="", location="pth")
    assert missing in told
    assert "did you mean 'path'? its columns are: nr, path, came on" in told


def test_doctor_looks_for_the_files_of_five_days_and_tells_shared_locations_and_a_missing_index(init, doctor, tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / "photos" / name).write_bytes(b"1")
    init("too-old.jpg", "b.jpg", "b.jpg", "gone.jpg", "s3://x/y.jpg", "a.jpg")
    told = doctor(id="nr", location="path", time="came on", base="photos")
    read = tmp_path / "photos"
    assert f"here: a.jpg, read as {read}/a.jpg of 2026-11-16, b.jpg, read as {read}/b.jpg of 2026-11-13, b.jpg" in told
    assert f"not here: gone.jpg, read as {read}/gone.jpg of 2026-11-14\n      fix: is the storage mounted?" in told
    assert 'CREATE INDEX "ix_the shots_came on" ON "the shots" ("came on", nr)' in told
    assert "too-old" not in told
    with closing(sqlite3.connect(tmp_path / "lab.db")) as connection, connection:
        connection.execute('CREATE INDEX by_time ON "the shots" ("came on")')
        connection.execute("INSERT INTO \"the shots\" (path, \"came on\") VALUES ('a.jpg', '2026-11-16')")
    told = doctor()
    assert "CREATE INDEX" not in told
    assert "1 of 1 are those of several rows, such as a.jpg" in told


def test_an_unknown_day_at_the_beginning_of_time_ends_the_search(init, doctor, tmp_path):
    init("/gone.jpg")
    with closing(sqlite3.connect(tmp_path / "lab.db")) as connection, connection:
        connection.execute("INSERT INTO \"the shots\" (path, \"came on\") VALUES ('/old.jpg', '1900-01-01')")
    assert "not here: /gone.jpg of 2026-11-11\n" in doctor(id="nr", location="path", time="came on")


@pytest.mark.parametrize(("location", "fix"), [("a.jpg", SET_BASE), (r"D:\Fotos\a.jpg", "replace(path, 'D:', '/srv/")])
def test_doctor_says_how_relative_locations_and_those_of_windows_become_paths(init, doctor, location, fix):
    init(location)
    told = doctor(id="nr", location="path", time="came on")
    assert f"note  files: not here: {location} of 2026-11-11\n      fix: " in told
    assert told.count(fix) == 2  # the other time by what a run would end with


def test_an_infer_toml_is_kept_and_ends_in_an_error(init, tmp_path):
    (tmp_path / "infer.toml").write_text("mine")
    with pytest.raises(UsageError, match=r"infer\.toml exists and was not changed"):
        init("/srv/photos/a.jpg")
    assert (tmp_path / "infer.toml").read_text() == "mine"


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path):
    with pytest.raises(DatabaseUnavailable, match=r"nothere\.db does not exist"):
        init_from(f"sqlite:///{tmp_path / 'nothere.db'}", folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
