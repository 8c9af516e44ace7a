"""A project whose files, table, folders and settings change between its commands, and what its files have ever held."""

import hashlib
import json
import os
import shutil
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from infer_app.tables.engine.connect import Database
from tests.databases.conftest import roles_of
from tests.faults import launch
from tests.faults.launch import POINTS
from tests.faults.proxy import Proxy
from tests.support.patches import COLORS, draw
from tests.support.preloaded import REPOSITORY, run_forked, run_new
from tests.support.projects import DATE

FIRST = "2026-11-19"  # the other day of pictures
NOON = 1_795_176_000  # of DATE
RUN = '[run]\nlookback = 1\nworkers = 2\nchunk_size = 3\nmax_rejected = "100%"\n'
CONFIG = RUN + '[database]\nurl = "{url}"\n{schema}[images]\nroots = ["{pictures}"]\n'
TABLE = '[source]\n{listing}\nlocation = "path"\nbase = "{pictures}"\ntime = "taken"\ntime_zone = "UTC"\n'
LISTINGS = ('table = "shots"', 'table = "seen"', 'query = "SELECT id, path, taken FROM shots"',
            'query = "SELECT s.taken, s.path, s.id FROM seen s WHERE s.id > 0"')  # fmt: skip


def ways_to(url, folder, stack):
    """Return URLs of one database: by path, link, socket, address or name; by another role, or without a password."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        (folder / "link").symlink_to(Path(parsed.database).parent)
        return [url, f"sqlite:///{folder}/link/infer.db", f"sqlite:///../{os.path.relpath(parsed.database, folder)}"]
    is_postgres = parsed.get_backend_name() == "postgresql"
    grant = "GRANT postgres TO {role}" if is_postgres else "GRANT ALL ON {all} TO {role}"
    role = make_url(stack.enter_context(roles_of(url))(grant))
    port = make_url(stack.enter_context(Proxy(url)).url)
    ways = [parsed, role, port, port.set(host="localhost"), role.set(host="localhost", port=port.port, query={})]
    if is_postgres:  # which trusts, and asks for no password
        ways += [role.set(password=None), port.set(password="unused")]
    ways += [way.update_query_dict({"connect_timeout": "5"}) for way in ways]
    return [way.render_as_string(hide_password=False) for way in ways]


class ChangingProject:
    """The project, whose settings lie in several folders: its machines and copies."""

    def __init__(self, folder, urls, source_urls, models, rng, *, watches, schema):
        self.folder, self.rng, self.models, self.watches = folder, rng, models, watches
        self.urls, self.source_urls, self.schema = urls, source_urls, schema
        options = {"connect_args": {"options": f"-csearch_path={schema},public"}} if schema else {}
        plain = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT"}
        self.engine = create_engine(Database(urls[0]).url, **plain, **options)
        self.source = create_engine(Database((source_urls or urls)[0]).url, **plain)
        built = [json.loads(file.read_text()) for file in sorted(models.glob("*/*/manifest.json"))]
        self.versions = defaultdict(list)
        for one in built:
            self.versions[one["name"]].append(one["model_id"])
        self.gates = {one["model_id"]: one["crop"]["min_score"] for one in built if one.get("crop")}
        self.pictures, self.listing = folder / "pictures", LISTINGS[0]
        self.pictures.mkdir()
        self.contents = {}  # by sha256: the patches, or None of a broken file
        self.held = defaultdict(set)  # by file name: the checksums of what it ever held
        self.serial, self.is_away, self.beside = 0, False, ThreadPoolExecutor(1)
        self.homes = [self.add_home()]
        self.infer("db", "upgrade")
        for network, versions in self.versions.items():
            self.infer("model", "use", f"{network}@{versions[0]}")
        self.sql("CREATE TABLE shots (id INTEGER PRIMARY KEY, path VARCHAR(99), taken TIMESTAMP)")
        self.sql("CREATE VIEW seen AS SELECT id, path, taken FROM shots")
        for _ in range(10):
            self.add_a_picture()

    def sql(self, statement):
        with self.source.connect() as connection:
            done = connection.execute(text(statement))
            return done.all() if done.returns_rows else None

    def new(self, kind):
        self.serial += 1
        return self.folder / f"{kind}{self.serial}"

    # What may happen to files and to the table

    def write(self, path):
        """Write a picture of its own, or in one of eight cases a broken one."""
        patches, drawn = None, self.new("drawn")
        data = b"" if self.rng.random() < 0.5 else f"no photo {self.serial}".encode()
        if self.rng.random() > 0.12:
            drawn = drawn.with_suffix(".png")
            patches = draw(drawn, self.rng.choices(list(COLORS), k=self.rng.randrange(4)))
            data = drawn.read_bytes() + str(self.serial).encode()  # behind the end of the picture
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.touch(path, self.rng.choice([0, 86_400]))
        self.contents[sha256 := hashlib.sha256(data).hexdigest()] = patches
        self.held[path.name].add(sha256)

    def touch(self, path, earlier_s=0):
        self.serial += 1
        os.utime(path, (NOON - earlier_s + self.serial,) * 2)

    def files(self):
        """Return all files by name, also where the storage is away: no name is used twice."""
        folder = self.folder / "away" if self.is_away else self.pictures
        return {path.name: path for path in sorted(folder.rglob("*.png"))}

    def listed(self):
        """Return the names that the table lists, or those of all files of watched folders."""
        return set(self.held) if self.watches else {Path(path).name for (path,) in self.sql("SELECT path FROM shots")}

    def add_a_picture(self):
        """Add a file and, to a table, its row by a new id or by one of a row that was deleted."""
        name = f"cam{self.rng.randrange(3)}/{self.serial:04}.png"
        if not self.is_away:
            self.write(self.pictures / name)
        if not (self.is_away or self.watches):
            first, last = self.sql("SELECT coalesce(min(id), 1), coalesce(max(id), 0) FROM shots")[0]
            number, day = self.rng.choice([last + 1, *range(1, first)]), self.rng.choice([FIRST, DATE])
            self.sql(f"INSERT INTO shots VALUES ({number}, '{name}', '{day} 12:00:00')")

    def change_a_file(self):
        if found := [*self.files().values()]:
            change = self.rng.choice([self.write, self.write, self.touch, *[Path.unlink] * (len(found) > 6)])
            change(self.rng.choice(found))

    def remove_a_row(self):
        first, count = self.sql("SELECT min(id), count(*) FROM shots")[0]
        if count > 6:
            self.sql(f"DELETE FROM shots WHERE id = {first}")

    def take_storage_away(self):
        """Leave nothing of it, or for watched folders what a file system that is not mounted may leave."""
        if not self.is_away:
            self.pictures.rename(self.folder / "away")
            self.is_away = True
            if self.watches:
                self.pictures.joinpath(self.rng.choice([".", "lost+found", "cam0"])).mkdir(parents=True)
                if self.rng.random() < 0.3:
                    (self.pictures / "README.txt").write_text("not mounted")

    def bring_storage_back(self):
        if self.is_away:
            shutil.rmtree(self.pictures, ignore_errors=True)
            (self.folder / "away").rename(self.pictures)
            self.is_away = False

    # How the same pictures and results are reached

    def move_the_pictures(self):
        if not self.is_away:
            self.pictures = self.pictures.rename(self.new("pictures"))

    def list_them_otherwise(self):
        self.listing = self.rng.choice(LISTINGS)

    def rename_a_folder(self):
        self.homes.append(self.homes.pop().rename(self.new("project")))

    def copy_a_folder(self):
        self.homes.append(shutil.copytree(self.rng.choice(self.homes), self.new("copy")))

    def add_home(self):
        home = self.new("machine")
        home.mkdir()
        shutil.copy(self.models.parent / "own.py", home)
        return home

    def join_from_another_machine(self):
        """It may only read before."""
        home = self.add_home()
        refused = self.infer("run", "--date", DATE, home=home)
        assert (refused[0], "infer db join" in refused[2]) == (2, True), refused
        assert self.infer("db", "join", home=home)[0] == 0
        self.homes.append(home)

    def settings(self):
        """Return settings that lead to all this by one of its ways."""
        own = CONFIG.replace("roots", "watch") if self.watches else CONFIG + TABLE
        if self.source_urls:
            own += f'database_url = "{self.rng.choice(self.source_urls)}"\n'
        schema = f'results_schema = "{self.schema}"\n' if self.schema else ""
        pictures, url = self.rng.choice([self.pictures, f"../{self.pictures.name}"]), self.rng.choice(self.urls)
        return own.format(url=url, schema=schema, pictures=pictures, listing=self.listing)

    def start(self, *arguments, kill=False, home=None, **environ):
        home = home or self.rng.choice(self.homes[-3:])
        config = home / self.rng.choice(["infer.toml", "other.toml"])
        config.write_text(self.settings())
        at_point = {"point": self.rng.choice(POINTS), "number": self.rng.randrange(1, 9)}
        faults = self.rng.choice([at_point, {"statement": self.rng.randrange(1, 40)}]) if kill else {}
        command = (launch.__file__, json.dumps(faults), *arguments, "--config", config.name)
        print(home, command, environ, config.read_text())
        environ = os.environ | {"INFER_MODELS__FOLDER": str(self.models), "PYTHONPATH": str(REPOSITORY)} | environ
        if "LD_PRELOAD" in environ:
            return arguments, self.beside.submit(run_new, (sys.executable, *command), home, environ)
        return arguments, self.beside.submit(run_forked, command, home, environ)

    def end(self, started):
        arguments, ended = started[0], started[1].result()
        code, out, errors = ended.returncode, ended.stdout, ended.stderr
        print(f"-> {code}")
        assert "Traceback" not in errors, errors
        assert code != 1 or "verify" in arguments, out + errors
        return code, out, errors

    def infer(self, *arguments, **more):
        return self.end(self.start(*arguments, **more))
