"""A table or view of ours that is missing or too old is exit code 11 in every command, with what to do."""

from collections.abc import Iterator

import pytest
import typer

from infer_app.base.errors import InferError, SchemaOutdated
from infer_app.cli import load_app
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import check_schema, upgrade
from infer_app.tables.results.schema import VERSION_TABLE, metadata
from infer_app.tables.results.views import VIEWS
from tests.databases.conftest import only
from tests.support.projects import DATE
from tests.support.results import definitions

ARGUMENTS = {  # of the commands that use our tables, and need more than their name
    "run": f"--date {DATE}",
    "backfill": f"--from {DATE} --to {DATE}",
    "explain": "--image 1",
    "compare": "--models slow fragile",
    "sample": "--count 1 --format coco --to sample.json",
    "export": f"--date {DATE} --format csv --to export.csv",
    "images add": "photos",
    "threshold set": "slow --default 0.5",
    "threshold show": "slow",
    "threshold remove": "slow",
    "labels set": "slow --only labels.txt",
    "cameras set": "cameras.csv",
    "labels show": "slow",
    "labels clear": "slow",
    "static list": "slow",
    "static hide": "1",
    "static keep": "1",
    "model use": "slow",
    "model remove": "slow",
    "model judge": "slow",
    "retry": f"--date {DATE}",
    "forget": "--before 2020-01-01 --yes",
}
WITHOUT_TABLES = {"quickstart", "init", "config show", "model build", "model describe"}
WITHOUT_TABLES |= {"model verify", "model check"}
# They work without a database too, and say on standard error why it is not known which version is in use.
TELL_IT = {"model list": "", "model show": "slow"}


def every_command(command=None, name: str = "") -> Iterator[str]:
    command = command or typer.main.get_command(load_app())
    children = getattr(command, "commands", {})
    if not children:
        yield name
    for child in children.values():
        yield from every_command(child, f"{name} {child.name}".strip())


def call(capsys, command, arguments=""):
    """Call a command in this process; return its exit code and what it says, with the hint of its error."""
    error = ""
    try:
        code = load_app()([*command.split(), *arguments.split()], standalone_mode=False) or 0
    except InferError as raised:
        code, error = raised.exit_code, f"{raised} {raised.hint}"
    return code, "".join(capsys.readouterr()) + error


@pytest.fixture
def in_project(project, monkeypatch, logging_as_it_was):
    project.add_photos(1)
    (project.folder / "labels.txt").write_text("red\n")
    (project.folder / "cameras.csv").write_text("camera\na\n")
    project.set("events", gap="60s")
    monkeypatch.chdir(project.folder)
    monkeypatch.setattr("infer_app.predict.workers.fork_server.start_early", lambda: None)
    return project


@only("sqlite", "postgres")  # one server will do for every command
@pytest.mark.parametrize(
    ("statement", "message", "hint", "is_mended"),
    [
        ("DROP TABLE infer_rejections", "the table infer_rejections is missing", "restore it from a backup", False),
        (
            "DROP VIEW infer_shown_events",
            "the view infer_shown_events is missing",
            "run `infer db upgrade`, which makes it again",
            True,
        ),
        (
            f"UPDATE {VERSION_TABLE} SET version_num = '0.1.0'",
            "made by a version of infer_app before 0.1.0",
            "name another file or database",
            False,
        ),
    ],
    ids=["table", "view", "before 0.1.0"],
)
def test_every_command_names_what_is_missing(in_project, url, capsys, statement, message, hint, is_mended):
    with Database(url) as database, database.write() as connection:
        is_cascaded = database.dialect.name == "postgresql" and statement.startswith("DROP")
        connection.exec_driver_sql(f"{statement}{' CASCADE' * is_cascaded}")
    commands = sorted({*every_command()} - WITHOUT_TABLES - TELL_IT.keys() - {"db upgrade"})
    said = {command: call(capsys, command, ARGUMENTS.get(command, "")) for command in commands}
    assert {command: (code, message in text, hint in text) for command, (code, text) in said.items()} == dict.fromkeys(
        commands, (11, True, True)
    )
    for command, arguments in TELL_IT.items():
        code, text = call(capsys, command, arguments)
        assert (code, message in text) == (0, True)
    code, text = call(capsys, "db upgrade")
    assert (code, message in text) == ((0, False) if is_mended else (11, True))
    code, text = call(capsys, "status")
    assert code == (0 if is_mended else 11)


@pytest.mark.parametrize("lost", [*metadata.tables, VERSION_TABLE])
def test_no_table_is_done_without_and_none_is_made_again(database, kind, lost):
    with database.write() as connection:
        for view in reversed(VIEWS):
            connection.exec_driver_sql(f"DROP VIEW {view}")
        if kind == "mariadb":
            connection.exec_driver_sql("SET foreign_key_checks = 0")
        connection.exec_driver_sql(f"DROP TABLE {lost}{' CASCADE' * (kind == 'postgres')}")
    for act in (check_schema, upgrade):
        with pytest.raises(SchemaOutdated, match=f"the table {lost} is missing") as caught:
            act(database)
        assert "restore it from a backup" in caught.value.hint


@pytest.mark.parametrize("lost", [(*reversed(VIEWS),), *((view,) for view in VIEWS)])
def test_an_upgrade_makes_each_view_again(database, kind, lost):
    before = definitions(database)
    with database.write() as connection:
        for view in lost:
            connection.exec_driver_sql(f"DROP VIEW {view}{' CASCADE' * (kind == 'postgres')}")
    with pytest.raises(SchemaOutdated, match=f"{lost[0]}.* missing"):
        check_schema(database)
    upgrade(database)
    check_schema(database)
    assert definitions(database) == before
