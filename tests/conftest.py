"""Shared small real things: a SQLite database, a registered day, JPEGs made in code, a database of each kind.

TEST_POSTGRES_URL and TEST_MARIADB_URL name servers to use instead of private ones, by a role that may create databases.
"""

import os
import random
import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from datetime import date, datetime
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

from infer_app.base.day import Day
from infer_app.base.telemetry.log import unbind_all
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.source import Source
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunModel
from tests.databases import servers
from tests.support import preloaded
from tests.support.alone import pytest_runtest_protocol  # noqa: F401
from tests.support.box import box  # noqa: F401
from tests.support.installed import installed  # noqa: F401
from tests.support.listeners import Recorder
from tests.support.s3_server import S3Server
from tests.support.s3_server import s3_server as run_s3_server
from tests.support.skips import need, pytest_terminal_summary  # noqa: F401
from tests.support.surroundings import logging_as_it_was, name_server, no_space, shared_folder  # noqa: F401

DAY = Day.of(date(2026, 11, 20), "UTC")
MODEL = RunModel("stub", "0123456789abcdef", "cpu-torchscript", {})
# The same examples each time, on a machine however slow.
settings.register_profile("any machine", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
WHOLE_RUNS = {"built_models", "models"}  # fixtures of tests that run the program, on a model it has built
SERVERS = ("postgres", "mariadb")
DATABASES = ("sqlite", *SERVERS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also the long fault tests, as `make faults`")
    parser.addoption("--sqlite-journal", choices=["wal", "delete"], default="wal", help="of the files that runs write")
    parser.addoption("--seed", type=int, help="of random faults; 0, and another each time by --full")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = random.randrange(10**6) if config.option.full else 0
    preloaded.always_new = config.option.full


def pytest_report_header(config: pytest.Config) -> str:
    return f"random faults: --seed {config.option.seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        is_unit = "unit" in item.path.parts
        if (WHOLE_RUNS & set(getattr(item, "fixturenames", ())) and not is_unit) or _repeats_on_a_server(item):
            item.add_marker(pytest.mark.slow)
        assert not (is_unit and item.get_closest_marker("slow")), f"`make test-rest` leaves out {item.nodeid}"
    if not config.option.full:
        left_out = {item for item in items if item.get_closest_marker("full")} | _without_turn(items)
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def _kind(item: pytest.Item) -> str | None:
    return item.callspec.params.get("kind") if hasattr(item, "callspec") else None


def _repeats_on_a_server(item: pytest.Item) -> bool:
    """Return whether a test that SQLite has run runs on a server; those of conformance/ run on each in `make test`."""
    return item.path.parent.name == "databases" and _kind(item) in SERVERS


def _without_turn(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return what of the tests that repeat on both servers is on the one whose turn it is not: the name decides."""
    turns = defaultdict(dict)
    for item in items:
        if _repeats_on_a_server(item) or (servers.AS_INSTALLED and item.path.parent.name == "conformance"):
            kind = str(_kind(item))
            turns[item.nodeid.replace(kind, "")][kind] = item
    both = ((crc32(name.encode()) % 2, found) for name, found in turns.items() if {*SERVERS} <= found.keys())
    return {found[SERVERS[turn]] for turn, found in both}


@pytest.fixture(autouse=True)
def no_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("INFER_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def no_values_of_another_tests_log_lines() -> None:
    """Unbind what a run of an earlier test in this process has bound to the lines that it logs."""
    unbind_all()


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Give torch one thread, as a run does: small models would only wait for a second. Undo what tests set."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def listener() -> Iterator[Recorder]:
    listener = Recorder()
    yield listener
    listener.close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("migrated") / "infer.db"
    with Database(f"sqlite:///{file}") as database:
        upgrade(database)
    return file


@pytest.fixture
def database(tmp_path: Path, migrated_file: Path) -> Iterator[Database]:
    """A migrated database for each test: a copy of one that was migrated once."""
    shutil.copy(migrated_file, tmp_path)
    with Database(f"sqlite:///{tmp_path / 'infer.db'}") as database:
        yield database


@pytest.fixture
def tables(database: Database) -> ProjectDatabase:
    return ProjectDatabase(database, Source(database))


@pytest.fixture
def register(database: Database) -> Callable[..., None]:
    """register("a.jpg", "b.jpg", at=datetime(…)) adds rows to infer_images; at noon of DAY unless told."""

    def register_images(*locations: str, at: datetime = datetime(2026, 11, 20, 12)) -> None:
        from tests.support.results import register_rows  # which needs this module

        rows = [{"location": location, "added_at": at} for location in locations]
        with database.write() as connection:
            register_rows(connection, *rows)

    return register_images


@pytest.fixture(scope="session", params=DATABASES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


PrivateServer = Callable[[str], servers.Server]


@pytest.fixture(scope="session")
def private_server() -> Iterator[PrivateServer]:
    """private_server("postgres") is this session's, which a test may stop and start; skips where none can be had."""
    with ExitStack() as stack:
        found: dict[str, servers.Server | servers.NoServer] = {}

        def get(kind: str) -> servers.Server:
            if kind not in found:
                try:
                    found[kind] = stack.enter_context(getattr(servers, kind)())
                except servers.NoServer as missing:
                    found[kind] = missing
            server = found[kind]
            if isinstance(server, servers.NoServer):
                pytest.skip(str(server))
            if not server.is_running:  # a test that failed has left it so
                server.start()
            return server

        yield get


def named_server(kind: str) -> str | None:
    """URL of a server to use instead of a private one."""
    return os.environ.get(f"TEST_{kind.upper()}_URL")


@pytest.fixture
def server(kind: str, private_server: PrivateServer) -> servers.Server | None:
    """None for SQLite, and where a server was named to be used."""
    return None if kind == "sqlite" or named_server(kind) else private_server(kind)


@pytest.fixture
def server_url(kind: str, server: servers.Server | None) -> str | None:
    """Of the server's maintenance database; None for SQLite."""
    return server.url if server else named_server(kind)


def make_users_file(path: Path) -> None:
    """A database of the user's own, which keeps SQLite's rollback journal."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE their_own (x)")
        connection.commit()


@pytest.fixture
def users_file(tmp_path: Path) -> Iterator[Database]:
    """Our tables in a database of the user's own."""
    make_users_file(tmp_path / "lab.db")
    with Database(f"sqlite:///{tmp_path / 'lab.db'}") as database:
        upgrade(database)
        yield database


NewDatabase = Callable[[str], AbstractContextManager[str]]


@pytest.fixture(scope="session")
def new_database(private_server: PrivateServer, tmp_path_factory: pytest.TempPathFactory) -> NewDatabase:
    """new_database(kind) is a context: the URL of one that holds nothing, as long as its `with` lasts."""

    def create(kind: str) -> AbstractContextManager[str]:
        if kind == "sqlite":
            return nullcontext(f"sqlite:///{tmp_path_factory.mktemp('database') / 'infer.db'}")
        return servers.new_database(named_server(kind) or private_server(kind).url)

    return create


@pytest.fixture
def url(server_url: str | None, tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[str]:
    """Of a new database that holds nothing of ours."""
    if server_url is None:
        if pytestconfig.option.sqlite_journal == "delete":
            make_users_file(tmp_path / "infer.db")
        yield f"sqlite:///{tmp_path / 'infer.db'}"
        return
    with servers.new_database(server_url) as created:
        yield created


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    need("moto", "s3fs")
    with run_s3_server() as server:
        yield server


@pytest.fixture(params=["turbo", "pillow"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of the decoder of JPEGs that is in use: each of the two."""
    from infer_app.predict.images.decode.decoder import has_turbo

    if request.param == "pillow":
        monkeypatch.setattr("infer_app.predict.images.decode.decoder.load_turbo", lambda: None)
    elif not has_turbo():
        pytest.skip("needs libturbojpeg: apt-get install libturbojpeg0")
    return str(request.param)
