"""Nights on PostgreSQL as Debian installs it: compiler, order of text, roles with settings, a pooler."""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack, suppress

import psycopg
import pytest
from sqlalchemy import make_url

from tests.databases import servers
from tests.databases.conftest import roles_of
from tests.support.projects import DATE, Project
from tests.support.waiting import wait_until

GIVEN = " TO {role}"
NUM_IMAGES = 1100  # more than a page, all of one time
RUN = ("run", "--date", DATE, "--lookback", "0", "--json")
# What a role or database may have set; each changes what is sent or received, or when a session ends.
OF_A_ROLE = {
    "statement_timeout": "30s", "lock_timeout": "10s", "idle_in_transaction_session_timeout": "10s",
    "DateStyle": "SQL, DMY", "TimeZone": "Asia/Kathmandu", "IntervalStyle": "sql_standard", "bytea_output": "escape",
    "client_encoding": "LATIN1", "standard_conforming_strings": "off", "array_nulls": "off",
    "transform_null_equals": "on", "extra_float_digits": "-3", "default_transaction_isolation": "serializable",
    "synchronous_commit": "off", "search_path": "own, public", "quote_all_identifiers": "on",
}  # fmt: skip
# Every plan; all but the driver's own look as expensive as lookups in large tables do.
LOGGED = {"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "jit_above_cost": "10"}
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


@pytest.fixture(scope="module")
def installed():
    with ExitStack() as stack:
        try:
            server = stack.enter_context(servers.installed_postgres())
        except servers.NoServer as missing:
            pytest.skip(str(missing))
        yield server


@pytest.fixture
def admin_url(installed):
    """Of a new database with a table of images by ids that languages and bytes order differently."""
    with servers.new_database(installed.url) as url:
        yield url


@pytest.fixture
def role(admin_url):
    with roles_of(admin_url) as add:
        own = [
            f"{do} SCHEMA {name}{to}"
            for name in ("own", "ours")
            for do, to in (("CREATE", ""), ("GRANT ALL ON", GIVEN))
        ]
        single = {name: value for name, value in OF_A_ROLE.items() if "," not in value}
        settings = [f"ALTER ROLE {{role}} SET {name} = {value!r}" for name, value in single.items()]
        lists = "ALTER ROLE {role} SET search_path = own, public", "ALTER ROLE {role} SET DateStyle = SQL, DMY"
        yield add(*own, "GRANT SELECT ON {all} TO {role}", *settings, *lists)


@pytest.fixture
def day(admin_url, tmp_path, built_models):
    project = Project(tmp_path / "project")
    project.use_models(built_models)
    project.add_photos(3)
    project.forget_database()
    with psycopg.connect(plain(admin_url)) as admin:
        admin.execute("CREATE TABLE public.shots (name text PRIMARY KEY, path text NOT NULL, at timestamptz)")
        for number in range(NUM_IMAGES):
            name = f"{'aBä-Zz_Öo.'[number % 10]}{'Xx'[number % 2]}{number // 10}"
            path = str(project.photos / f"{number % 3:04}.jpg")
            admin.execute("INSERT INTO shots VALUES (%s, %s, %s)", (name, path, f"{DATE} 08:00:00+00"))
    project.set("source", table="public.shots", id="name", location="path", time="at")
    project.set("images", roots=[str(project.photos)])
    return project


def plain(url):
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def check_night(project, **environ):
    """Run, look at and export a day of every image, and run it again."""
    project.infer("db", "upgrade", **environ)
    report = project.infer_json(*RUN[:-1], **environ)
    assert (report["predicted"], report["day"]["pending"]) == (NUM_IMAGES, 0)
    assert project.infer_json(*RUN[:-1], **environ)["selected"] == 0
    for command in (("verify", "--date", DATE), ("doctor",), ("status",)):
        project.infer(*command, **environ)
    listed = project.infer("list", "--state", "predicted", "--date", DATE, "--csv", **environ).splitlines()
    assert len(listed) == 1 + NUM_IMAGES


@pytest.mark.always
def test_a_night_compiles_no_statement_and_needs_no_setting_of_its_role(day, admin_url, role, installed):
    database = make_url(admin_url).database
    with psycopg.connect(plain(admin_url), autocommit=True) as admin:
        for name, value in LOGGED.items():
            admin.execute(f"ALTER DATABASE {database} SET {name} = '{value}'")
        assert admin.execute("SELECT pg_jit_available(), current_setting('jit')").fetchone() == (True, "on")
    before = installed.log.stat().st_size
    check_night(day, INFER_DATABASE__URL=role)
    plans = installed.log.read_text()[before:]
    assert "infer_predictions" in plans
    assert "JIT:" not in plans


def test_a_night_through_a_pooler_that_gives_each_transaction_another_session(day, role, installed, tmp_path):
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("needs pgbouncer: apt-get install pgbouncer")
    folder, url = installed.log.parent, make_url(role)
    names = folder / "pooled"
    name = str(url.username).replace('"', '""')
    names.write_text(f'"{name}" "canary"\n')
    settings = {"pool_mode": "transaction", "unix_socket_dir": folder, "listen_port": 6432, "auth_type": "trust",
                "auth_file": names, "default_pool_size": 3}  # fmt: skip
    file = folder / "pgbouncer.ini"
    lines = [f"{name} = {value}" for name, value in settings.items()]
    file.write_text("\n".join([f"[databases]\n* = host={folder} port=5432\n[pgbouncer]", *lines]) + "\n")
    pooler = subprocess.Popen([program, str(file)], user=installed.user, stderr=subprocess.DEVNULL)
    try:
        wait_until((folder / ".s.PGSQL.6432").exists)
        pooled = {"INFER_DATABASE__URL": url.update_query_dict({"port": "6432"}).render_as_string(False)}
        check_night(day, **pooled)
        day.forget_database()  # the next night has tables of its own beside these
        check_night(day, **pooled, INFER_DATABASE__RESULTS_SCHEMA="ours")
    finally:
        pooler.terminate()
        pooler.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_that_waits_for_its_source(day, admin_url, number):
    """Twice: the first lets it finish what it does."""
    environ = {"INFER_SOURCE__DATABASE_URL": admin_url}
    day.infer("db", "upgrade", **environ)
    with psycopg.connect(plain(admin_url)) as holder, psycopg.connect(plain(admin_url), autocommit=True) as look:
        holder.execute("LOCK TABLE shots IN ACCESS EXCLUSIVE MODE")
        run = day.start(*RUN, **environ)
        wait_until(lambda: look.execute(WAITING).fetchone() == (1,) or run.poll() is not None)
        for _ in range(2):
            run.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                run.wait(timeout=2)
        _, errors = run.communicate(timeout=60)
    assert (run.returncode, "Traceback" in errors) == (128 + number, False), errors


def test_a_query_that_would_write_is_refused_in_words(day, admin_url):
    query = "WITH gone AS (DELETE FROM shots RETURNING *) SELECT name, path, at FROM gone"
    environ = {"INFER_SOURCE__DATABASE_URL": admin_url, "INFER_SOURCE__QUERY": query}
    day.infer("db", "upgrade", **environ)
    for command in (RUN, ("doctor",)):
        day.infer(*command, exit_code=2, **environ)
        assert "Traceback" not in day.errors
    with psycopg.connect(plain(admin_url)) as admin:
        assert admin.execute("SELECT count(*) FROM shots").fetchone() == (NUM_IMAGES,)
