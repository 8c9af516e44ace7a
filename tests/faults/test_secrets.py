"""A password in the database's URL shows nowhere: row 13 of the fault contract."""

import json
import re
from urllib.parse import quote

import pytest
from sqlalchemy import make_url

from tests.faults.conftest import on
from tests.faults.project_run import DATE, photos

CANARY = "canary/7f3a@b:c d%e"
SHOWN = [CANARY, quote(CANARY, safe=""), quote(CANARY), CANARY.replace(" ", "+"), "7f3a@b", "7f3a%40b"]
VERBOSE = "--verbose"


@pytest.fixture
def secret(night, kind):
    """The night's database by a URL with the canary, which the server takes."""
    user = "canary"
    if kind == "mariadb":
        password = CANARY.replace("%", "%%")
        night.execute("DROP USER IF EXISTS canary@localhost")
        with night.engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE USER canary@localhost IDENTIFIED BY '{password}'")
        night.execute("GRANT ALL ON *.* TO canary@localhost")
    else:
        user = "postgres"  # whom this server trusts, whatever the password
    night.secret_url = url_of(night, username=user, password=CANARY)
    night.configure(night.secret_url)
    night.add(photos(6))
    return night


def url_of(night, **changed):
    return make_url(night.url).set(**changed).render_as_string(hide_password=False)


def assert_unseen(night, *texts):
    for path in night.folder.rglob("*"):
        if path.is_file() and path.name != "infer.toml" and not path.is_relative_to(night.folder / "models"):
            texts += (path.read_bytes().decode("utf-8", "replace"),)
    tables = [night.rows(f"SELECT * FROM {table}") for table in ("infer_runs", "infer_models", "infer_rejections")]
    for text in (*texts, repr(tables)):
        for shown in SHOWN:
            assert shown not in text, text[max(0, text.index(shown) - 200) :][:400]


def say(night, *arguments, **faults):
    """All that a command says."""
    run = night.start_command(*arguments, **faults)
    ended = night.wait(run)
    return ended.exit_code, ended.out + ended.err


@on("postgres")
def test_no_command_that_succeeds_tells_the_password(secret):
    said = [
        say(secret, "run", "--date", DATE, VERBOSE, "--json", "--trace", "trace.json"),
        say(secret, "report", "--date", DATE),
        say(secret, "config", "show", "--origin"),
        say(secret, "doctor"),
        say(secret, "status", "--json"),
    ]
    assert [code for code, _ in said][:3] == [0, 0, 0], said
    assert list(secret.folder.glob("reports/*.html"))
    assert (secret.folder / "trace.json").stat().st_size
    assert_unseen(secret, *(text for _, text in said))


@on("postgres")
@pytest.mark.parametrize("where", ["toml", pytest.param("environment", marks=pytest.mark.full)])
def test_no_failure_tells_the_password(secret, kind, where, monkeypatch, request):
    elsewhere = make_url(secret.secret_url)
    bare = elsewhere.render_as_string(hide_password=False)
    broken = {
        "a port that is none": (2, bare.replace("@/", "@host:port/").replace("@localhost/", "@host:port/")),
        "no name of a database system": (2, bare.partition(":")[2]),
        "an unknown one": (2, "oracle" + bare[bare.index(":") :]),
        "nobody listens": (10, url_of(secret, password=CANARY, host="127.0.0.1", port=1, query={})),
        "no such database": (10, elsewhere.set(database="nowhere").render_as_string(hide_password=False)),
        "no such host": (10, url_of(secret, password=CANARY, host="nowhere.invalid", query={})),
        "an option it has not": (2, elsewhere.update_query_dict({"oops": CANARY}).render_as_string(False)),
    }
    if kind == "mariadb":
        broken["a wrong password"] = (10, elsewhere.set(password=CANARY + "!").render_as_string(hide_password=False))
    num_commands = 3 if request.config.option.full else 1
    for what, (exit_code, url) in broken.items():
        if where == "toml":
            secret.configure(url)
        else:
            monkeypatch.setenv("INFER_DATABASE__URL", url)
        for command in (["run", "--date", DATE, "--json", VERBOSE], ["doctor"], ["config", "show"])[:num_commands]:
            code, text = say(secret, *command)
            assert_unseen(secret, text)
            assert code == exit_code or command[0] != "run", (what, code, text)


@on("postgres")
def test_no_traceback_tells_the_password(secret):
    code, text = say(secret, "run", "--date", DATE, "--json", VERBOSE, crash=True)
    assert code == 1
    assert "Traceback" in text
    assert "crash with" in secret.rows("SELECT error FROM infer_runs")[0][0]
    assert_unseen(secret, text)


@on("postgres")
def test_a_password_that_the_server_refuses_is_not_told(secret, server):
    """For once this server asks for one."""
    if server is None:
        pytest.skip("a server of one's own is needed to change its rules")
    rules = next(p for p in [server.log.parent / "data" / "pg_hba.conf"] if p.exists())
    before = rules.read_text()
    secret.execute("DROP ROLE IF EXISTS canary")
    secret.execute("CREATE ROLE canary LOGIN SUPERUSER PASSWORD 'another'")
    try:
        rules.write_text("local all canary scram-sha-256\n" + before)
        secret.execute("SELECT pg_reload_conf()")
        secret.configure(url_of(secret, username="canary", password=CANARY))
        code, text = say(secret, "run", "--date", DATE, "--json", VERBOSE)
    finally:
        rules.write_text(before)
        secret.execute("SELECT pg_reload_conf()")
    assert code == 10
    assert re.search("password authentication failed", text)
    assert json.loads(text[text.index('{"error"') :].splitlines()[0])["exit_code"] == 10
    assert_unseen(secret, text)
