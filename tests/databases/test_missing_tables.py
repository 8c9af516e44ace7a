"""A table or a view of ours that is missing is exit code 11 in every command, with its name and what to do."""

import json
from collections.abc import Iterator

import pytest
import typer
from sqlalchemy import inspect

from infer_app.cli.app import app
from infer_app.database.engine.connect import Database
from infer_app.database.results.migrate import check_schema, upgrade
from infer_app.database.results.schema import VERSION_TABLE, VIEWS, metadata
from infer_app.errors import InferError, SchemaOutdated
from tests.support.projects import DATE

ARGUMENTS = {  # of the commands that use our tables, and need more than their name
    "run": f"--date {DATE}",
    "backfill": f"--from {DATE} --to {DATE}",
    "explain": "--image 1",
    "compare": "--models slow fragile",
    "sample": "--count 1 --out sample --format csv",
    "export": f"--date {DATE} --format csv --out export.csv",
    "images add": "photos",
    "threshold set": "slow --default 0.5",
    "threshold show": "slow",
    "threshold remove": "slow",
    "model use": "slow",
    "model remove": "slow",
    "model judge": "slow",
    "retry": f"--date {DATE}",
    "doctor": "--json",
}
WITHOUT_TABLES = {"quickstart", "init", "cache status", "cache clear", "config show", "model build", "model verify"}
# They work without a database too, and say on standard error why it is not known which version is in use.
TELL_IT = {"model list": "", "model show": "slow", "model tune": "slow", "model check": "slow --images photos"}


def every_command(command=None, name: str = "") -> Iterator[str]:
    command = command or typer.main.get_command(app)
    children = getattr(command, "commands", {})
    if not children:
        yield name
    for child in children.values():
        yield from every_command(child, f"{name} {child.name}".strip())


def exit_code_of(arguments, capsys):
    """The exit code of a command, called in this process, and what it says."""
    try:
        code = app([*arguments], standalone_mode=False) or 0
    except typer.Exit as end:
        code = end.exit_code
    except InferError as error:
        return error.exit_code, f"{error} {error.hint}"
    return code, "".join(capsys.readouterr())


@pytest.fixture
def in_project(project, kind, monkeypatch, logging_as_it_was):
    if kind == "mariadb":
        pytest.skip("one server will do for every command")
    project.add_photos(1)
    monkeypatch.chdir(project.folder)
    monkeypatch.setattr("infer_app.workers.fork_server.start_early", lambda: None)
    return project


@pytest.mark.parametrize(
    ("drop", "name"), [("TABLE infer_rejections", "table infer_rejections"), ("VIEW infer_shown_labels", None)]
)
def test_every_command_names_what_is_missing(in_project, url, capsys, drop, name):
    with Database(url) as database, database.write() as connection:
        connection.exec_driver_sql(f"DROP {drop}")
    lost = drop.split()[1]
    hint = "restore it from a backup" if name else "run `infer db upgrade`, which makes it again"
    found = {}
    for command in sorted({*every_command()} - WITHOUT_TABLES - TELL_IT.keys() - {"db upgrade"}):
        code, said = exit_code_of([*command.split(), *ARGUMENTS.get(command, "").split()], capsys)
        found[command] = (code, f"{lost} is missing" in said and hint in said)
    assert found == dict.fromkeys(found, (11, True))
    for command in ("model list", "model show"):
        code, said = exit_code_of([*command.split(), *TELL_IT[command].split()], capsys)
        assert (code, f"{lost} is missing" in said) == (0, True)
    code, said = exit_code_of(["db", "upgrade"], capsys)
    assert (code, f"{lost} is missing" in said) == ((11, True) if name else (0, False))
    code, said = exit_code_of(["doctor", "--json"], capsys)
    findings = json.loads(said)["findings"] if said.startswith("{") else []
    assert any(lost in one["found"] for one in findings) is bool(name)


@pytest.mark.parametrize("lost", [*metadata.tables, VERSION_TABLE])
def test_no_table_is_done_without_and_none_is_made_again(database, lost):
    with database.write() as connection:
        for view in VIEWS:
            connection.exec_driver_sql(f"DROP VIEW {view}")
        connection.exec_driver_sql(f"DROP TABLE {lost}")
    for act in (check_schema, upgrade):
        with pytest.raises(SchemaOutdated, match=f"the table {lost} is missing") as caught:
            act(database)
        assert "restore it from a backup" in caught.value.hint


def definitions(database):
    with database.read() as connection:
        return {view: inspect(connection).get_view_definition(view) for view in VIEWS}


@pytest.mark.parametrize("lost", [(*VIEWS,), *((view,) for view in VIEWS)])
def test_an_upgrade_makes_each_view_again(database, kind, lost):
    if lost == ("infer_current_objects",) and kind == "postgres":
        lost = ("infer_shown_objects", *lost)  # selects from it
    before = definitions(database)
    with database.write() as connection:
        for view in lost:
            connection.exec_driver_sql(f"DROP VIEW {view}")
    with pytest.raises(SchemaOutdated, match=f"{lost[0]}.* missing"):
        check_schema(database)
    upgrade(database)
    check_schema(database)
    assert definitions(database) == before
