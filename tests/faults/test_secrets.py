"""A password in the database's URL shows nowhere: row 13 of the fault contract."""

import json
from urllib.parse import quote

import pytest
from sqlalchemy import make_url

from tests.conftest import SERVERS
from tests.faults.conftest import on
from tests.faults.project_run import DATE, photos

CANARY = "canary/7f3a@b:c d%e"
SHOWN = [CANARY, quote(CANARY, safe=""), quote(CANARY), CANARY.replace(" ", "+"), "7f3a@b", "7f3a%40b"]
RUN = ["run", "--date", DATE, "--json", "--verbose"]


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
    night.secret_url = as_text(make_url(night.url).set(username=user, password=CANARY))
    night.configure(night.secret_url)
    night.add(photos(6))
    return night


def as_text(url):
    return url.render_as_string(hide_password=False)


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
    ended = night.wait(night.start_command(*arguments, **faults))
    return ended.exit_code, ended.out + ended.err


@on("postgres", of=SERVERS)
def test_no_command_that_succeeds_tells_the_password(secret):
    said = [
        say(secret, *RUN),
        say(secret, "report", "--date", DATE),
        say(secret, "config", "show", "--origin"),
        say(secret, "doctor"),
        say(secret, "status", "--json"),
    ]
    assert [code for code, _ in said][:3] == [0, 0, 0], said
    assert list(secret.folder.glob("reports/*.html"))
    assert_unseen(secret, *(text for _, text in said))


@on("postgres", of=SERVERS)
@pytest.mark.parametrize("where", ["toml", pytest.param("environment", marks=pytest.mark.full)])
def test_no_failure_tells_the_password(secret, kind, where, monkeypatch, request):
    elsewhere = make_url(secret.secret_url)
    bare = as_text(elsewhere)
    broken = [
        (2, bare.replace("@/", "@host:port/").replace("@localhost/", "@host:port/")),  # a port that is none
        (2, bare.partition(":")[2]),  # no name of a database system
        (2, "oracle" + bare[bare.index(":") :]),  # an unknown one
        (10, as_text(elsewhere.set(host="127.0.0.1", port=1, query={}))),  # no server listens there
        (10, as_text(elsewhere.set(host="nowhere.invalid", query={}))),
        (10, as_text(elsewhere.set(database="nowhere"))),
        (2, as_text(elsewhere.update_query_dict({"oops": CANARY}))),  # an option that it has not
    ]
    if kind == "mariadb":
        broken.append((10, as_text(elsewhere.set(password=CANARY + "!"))))
    commands = [RUN, ["doctor"], ["config", "show"]]
    for exit_code, url in broken:
        if where == "toml":
            secret.configure(url)
        else:
            monkeypatch.setenv("INFER_DATABASE__URL", url)
        for command in commands if request.config.option.full else [RUN]:
            code, text = say(secret, *command)
            assert_unseen(secret, text)
            assert code == exit_code or command is not RUN, text


@on("postgres", of=SERVERS)
def test_no_traceback_tells_the_password(secret):
    code, text = say(secret, *RUN, crash=True)
    assert code == 1
    assert "Traceback" in text
    assert "crash with" in secret.rows("SELECT error FROM infer_runs")[0][0]
    assert_unseen(secret, text)


@on("postgres", of=["postgres"])
def test_a_password_that_the_server_refuses_is_not_told(secret, server):
    """For once this server asks for one."""
    if server is None:
        pytest.skip("a server of one's own is needed to change its rules")
    rules = server.log.parent / "data" / "pg_hba.conf"
    before = rules.read_text()
    secret.execute("DROP ROLE IF EXISTS canary")
    secret.execute("CREATE ROLE canary LOGIN SUPERUSER PASSWORD 'another'")
    try:
        rules.write_text("local all canary scram-sha-256\n" + before)
        secret.execute("SELECT pg_reload_conf()")
        secret.configure(as_text(make_url(secret.url).set(username="canary", password=CANARY)))
        code, text = say(secret, *RUN)
    finally:
        rules.write_text(before)
        secret.execute("SELECT pg_reload_conf()")
    assert code == 10
    assert "password authentication failed" in text
    assert json.loads(text[text.index('{"error"') :].splitlines()[0])["exit_code"] == 10
    assert_unseen(secret, text)
