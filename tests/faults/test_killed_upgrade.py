"""An upgrade that was killed, wherever it was, is ended by the next one as if it had not been."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from infer_app.base.errors import SchemaOutdated
from infer_app.tables.engine.connect import Database
from infer_app.tables.engine.reconnect import DiskFull
from infer_app.tables.results.migrate import check_schema, upgrade
from tests.faults.conftest import on
from tests.faults.project_run import REPOSITORY
from tests.faults.test_full_disk import fill
from tests.support.former_database import answers, fill_former
from tests.support.statements import connected, execute_at

pytestmark = pytest.mark.timeout(1800)
KILLED = -9


def start_upgrade(folder, url, **faults):
    """`infer db upgrade` in a process group of its own."""
    (folder / "infer.toml").touch()
    command = [sys.executable, "-m", "tests.faults.launch", json.dumps(faults), "db", "upgrade"]
    environ = os.environ | {"PYTHONPATH": str(REPOSITORY), "INFER_DATABASE__URL": url}
    return subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True, start_new_session=True)


def upgraded(url):
    """Upgrade once more; return all that the tables hold that were made, and what the views give."""
    with Database(url) as database:
        upgrade(database)
        check_schema(database)
    with connected(url) as connection:
        tables = ("infer_pictures", "infer_objects", "infer_predictions", "infer_rejections", "infer_database_id")
        rows = {name: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {name}"))) for name in tables}
        crops = connection.exec_driver_sql("SELECT object_id, model_id, label FROM infer_object_predictions")
        return rows, sorted(map(repr, crops)), answers(url)


@pytest.fixture
def undisturbed(new_database, kind):
    with new_database(kind) as url:
        fill_former(url)
        return upgraded(url)


@on("mariadb")
def test_killed_before_any_statement_an_upgrade_is_ended_by_the_next(
    new_database, kind, undisturbed, tmp_path, seeded, request
):
    number, ended = 0, None
    while ended != 0:
        number += 1 if request.config.option.full else seeded.randrange(1, 6)
        with new_database(kind) as url:
            fill_former(url)
            process = start_upgrade(tmp_path, url, statement=number)
            _, errors = process.communicate(timeout=100)
            ended = process.returncode
            assert ended in (0, KILLED), errors
            with suppress(SchemaOutdated), Database(url) as database:
                check_schema(database)  # it is to be upgraded, or all is there
                assert answers(url) == undisturbed[2]
            assert upgraded(url) == undisturbed, f"statement {number}"
    assert number > 30


@on("mariadb")
def test_killed_at_any_time_an_upgrade_is_ended_by_the_next(new_database, kind, undisturbed, tmp_path, seeded):
    with new_database(kind) as url:
        fill_former(url)
        start = time.monotonic()
        process = start_upgrade(tmp_path, url)
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        took_s = time.monotonic() - start
    for _ in range(6):
        with new_database(kind) as url:
            fill_former(url)
            process = start_upgrade(tmp_path, url)
            time.sleep(seeded.uniform(took_s / 2, took_s))
            process.kill()
            process.communicate()
            assert upgraded(url) == undisturbed


@pytest.mark.parametrize("num_copies", [0, 1])
def test_where_the_disk_is_full_the_file_stays_as_it_was(small_disk, num_copies):
    url, filler = f"sqlite:///{small_disk / 'infer.db'}", small_disk / "filler"
    fill_former(url)
    execute_at(url, "CREATE TABLE padding (x)", "INSERT INTO padding VALUES (zeroblob(3000000))")
    before, files = answers(url), {path.name for path in small_disk.iterdir()}
    fill(filler)
    free = 20_000 + num_copies * (small_disk / "infer.db").stat().st_size
    with filler.open("r+b") as file:
        file.truncate(filler.stat().st_size - free)
    with Database(url) as database, pytest.raises(DiskFull) as caught:
        upgrade(database)
    assert "the disk is full" in caught.value.hint
    assert answers(url) == before
    files |= {"filler", *["infer.before-layout-2.db"] * num_copies}
    assert {path.name for path in small_disk.iterdir()} == files
    filler.unlink()
    with Database(url) as database:
        upgrade(database)
    assert answers(url)["infer_shown_crops"] == before["infer_shown_crops"]
