"""A project whose files, table, folders and settings are changed between its commands, always by the same pictures."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from PIL import Image, PngImagePlugin
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from infer_app.tables.engine.connect import Database
from tests.databases.conftest import roles_of
from tests.faults.launch import POINTS
from tests.faults.proxy import Proxy
from tests.support.patches import COLORS, draw
from tests.support.projects import DATE

FIRST = "2026-11-19"  # the other day of pictures
NOON = 1_795_176_000  # of DATE
SETTINGS = ("infer.toml", "other.toml")
CONFIG = """
[database]
url = "{url}"
{more}
[models]
folder = "{models}"
[run]
lookback = 1
workers = 2
chunk_size = 3
max_rejected = "100%"
[images]
"""
FOLDER = 'watch = ["{pictures}"]\n'
TABLE = """roots = ["{pictures}"]
[source]
{listing}
location = "path"
base = "{pictures}"
time = "taken"
time_zone = "UTC"
"""
LISTINGS = ('table = "shots"', 'table = "seen"', 'query = "SELECT id, path, taken FROM shots"',
            'query = "SELECT s.taken, s.path, s.id FROM seen s WHERE s.id > 0"')  # fmt: skip


def ways_to(url, folder, stack):
    """Return URLs of one database: by its socket, an address or a name, by another role, with and without a password."""
    parsed, option = make_url(url), "?connect_timeout=5"
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
    texts = [way.render_as_string(hide_password=False) for way in ways]
    return texts + [way + (option.replace("?", "&") if "?" in way else option) for way in texts]


class ChangingProject:
    """The project, and what its files have ever held."""

    def __init__(self, folder, urls, source_urls, models, rng, *, watches, schema):
        folder.mkdir(exist_ok=True)
        self.folder, self.rng, self.models, self.watches = folder, rng, models, watches
        self.urls, self.source_urls, self.schema = urls, source_urls, schema
        options = {"connect_args": {"options": f"-csearch_path={schema},public"}} if schema else {}
        plain = {"poolclass": NullPool, "isolation_level": "AUTOCOMMIT"}
        self.engine = create_engine(Database(urls[0]).url, **plain, **options)
        self.source = create_engine(Database((source_urls or urls)[0]).url, **plain)
        self.is_file = urls[0].startswith("sqlite")
        built = [json.loads(file.read_text()) for file in sorted(models.glob("*/*/manifest.json"))]
        self.versions = {name: [one["model_id"] for one in built if one["name"] == name] for name in ("cells", "species")}
        self.gates = {one["model_id"]: one["crop"]["min_score"] for one in built if one.get("crop")}
        self.pictures, self.listing = folder / "pictures", LISTINGS[0]
        self.pictures.mkdir()
        self.contents = {}  # by sha256: the patches, or None of a broken file
        self.held = defaultdict(set)  # by file name: the checksums of what it ever held
        self.serial, self.is_away, self.log, self.homes = 0, False, [], []
        self.runner = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.launch", folder], cwd=Path(__file__).parents[2], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.add_home()
        self.infer("db", "upgrade")
        for network in self.versions:
            self.use_a_version(network)
        with self.source.connect() as connection:
            connection.execute(text("CREATE TABLE shots (id INTEGER PRIMARY KEY, path VARCHAR(99), taken TIMESTAMP)"))
            connection.execute(text("CREATE VIEW seen AS SELECT id, path, taken FROM shots"))
        for _ in range(10):
            self.add_a_picture()

    # What may happen to files and to the table

    def content(self):
        """Return a picture of its own, or in one of eight cases a broken one."""
        self.serial += 1
        if self.rng.random() < 0.12:
            data = b"" if self.rng.random() < 0.5 else f"no photo {self.serial}".encode()
            self.contents[hashlib.sha256(data).hexdigest()] = None
            return data
        patches = draw(self.folder / "drawn.png", self.rng.choices(list(COLORS), k=self.rng.randrange(4)))
        text_chunk, buffer = PngImagePlugin.PngInfo(), io.BytesIO()
        text_chunk.add_text("Comment", str(self.serial))
        with Image.open(self.folder / "drawn.png") as picture:
            picture.save(buffer, "PNG", pnginfo=text_chunk)
        self.contents[hashlib.sha256(buffer.getvalue()).hexdigest()] = patches
        return buffer.getvalue()

    def write(self, path):
        data = self.content()
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.touch(path, self.rng.choice([0, 86_400]))
        self.held[path.name].add(hashlib.sha256(data).hexdigest())

    def touch(self, path, earlier_s=0):
        self.serial += 1
        os.utime(path, (NOON - earlier_s + self.serial,) * 2)

    def files(self):
        """Return all files by name, also where the storage is away: no name is used twice."""
        folder = self.folder / "away" if self.is_away else self.pictures
        return {path.name: path for path in sorted(folder.rglob("*.png"))}

    def listed(self):
        """Return the names that the table lists, or those of all files of watched folders."""
        if self.watches:
            return set(self.held)
        with self.source.connect() as connection:
            return {Path(path).name for path in connection.scalars(text("SELECT path FROM shots"))}

    def add_a_picture(self):
        """Add a file and, to a table, its row by a new id or by one of a row that was deleted."""
        if self.is_away:
            return
        name = f"cam{self.rng.randrange(3)}/{self.serial:04}.png"
        self.write(self.pictures / name)
        if not self.watches:
            with self.source.connect() as connection:
                ends = text("SELECT coalesce(min(id), 1), coalesce(max(id), 0) FROM shots")
                first, last = connection.execute(ends).one()
                day = self.rng.choice([FIRST, DATE])
                values = {"id": self.rng.choice([last + 1, *range(1, first)]), "path": name, "at": f"{day} 12:00:00"}
                connection.execute(text("INSERT INTO shots VALUES (:id, :path, :at)"), values)

    def change_a_file(self):
        if found := [*self.files().values()]:
            path = self.rng.choice(found)
            change = self.rng.choice([self.write, self.write, self.touch, Path.unlink])
            if change is not Path.unlink or len(found) > 6:
                change(path)

    def remove_a_row(self):
        with self.source.connect() as connection:
            if connection.scalar(text("SELECT count(*) FROM shots")) > 6:
                first = connection.scalar(text("SELECT min(id) FROM shots"))
                connection.execute(text(f"DELETE FROM shots WHERE id = {first}"))

    def take_storage_away(self):
        if not self.is_away:
            self.pictures.rename(self.folder / "away")
            if self.watches:
                self.pictures.mkdir()
                if mark := self.rng.choice([None, "README.txt", ".not-mounted", "lost+found/", "cam0/"]):
                    there = self.pictures / mark
                    there.mkdir() if mark.endswith("/") else there.write_text("not mounted")
            self.is_away = True

    def bring_storage_back(self):
        if self.is_away:
            shutil.rmtree(self.pictures, ignore_errors=True)
            (self.folder / "away").rename(self.pictures)
            self.is_away = False

    # How the same pictures and results are reached

    def move_the_pictures(self):
        if not self.is_away:
            self.serial += 1
            self.pictures = self.pictures.rename(self.folder / f"pictures{self.serial}")

    def list_them_otherwise(self):
        self.listing = self.rng.choice(LISTINGS)

    def rename_a_folder(self):
        self.serial += 1
        self.homes.append(self.homes.pop(0).rename(self.folder / f"project{self.serial}"))

    def copy_a_folder(self):
        self.serial += 1
        self.homes.append(shutil.copytree(self.rng.choice(self.homes), self.folder / f"copy{self.serial}"))
        self.leave_some()

    def add_home(self):
        self.serial += 1
        self.homes.append(self.folder / f"machine{self.serial}")
        self.homes[-1].mkdir()
        shutil.copy(self.models.parent / "own.py", self.homes[-1])

    def join_from_another_machine(self):
        """It may only read before."""
        self.add_home()
        refused = self.infer("run", "--date", DATE, home=-1)
        assert (refused[0], "infer db join" in refused[2]) == (2, True), refused
        joined = self.infer("db", "join", home=-1)
        assert joined[0] == 0, joined
        self.leave_some()

    def leave_some(self):
        while len(self.homes) > 3:
            shutil.rmtree(self.homes.pop(0))

    def settings(self):
        """Return settings that lead to all this by one of its ways."""
        more = f'results_schema = "{self.schema}"' if self.schema else ""
        pictures = self.rng.choice([self.pictures, f"../{self.pictures.name}"])
        listing = FOLDER if self.watches else TABLE
        if self.source_urls:
            listing += f'database_url = "{self.rng.choice(self.source_urls)}"\n'
        return CONFIG.format(url=self.rng.choice(self.urls), more=more, models=self.models) + listing.format(
            pictures=pictures, listing=self.listing
        )

    # Commands

    def use_a_version(self, network):
        self.infer("model", "use", f"{network}@{self.rng.choice(self.versions[network])}")

    def start(self, *arguments, kill=False, home=None, **environ):
        home = self.rng.choice(self.homes) if home is None else self.homes[home]
        config = home / self.rng.choice(SETTINGS)
        config.write_text(self.settings())
        faults = {"point": self.rng.choice(POINTS), "number": self.rng.randrange(1, 9)}
        if self.rng.random() < 0.4:
            faults = {"statement": self.rng.randrange(1, 40)}
        arguments = [*arguments, "--config", config.name]
        order = {"folder": str(home), "arguments": arguments, "faults": faults if kill else {}, "environ": environ}
        self.log.append(f"{home.name}: infer {' '.join(arguments)} {order['faults']} {config.read_text().split(chr(10))[2]}")
        print(json.dumps(order), file=self.runner.stdin, flush=True)
        return arguments

    def end(self, arguments):
        code = int(self.runner.stdout.readline())
        out, errors = ((self.folder / name).read_text() for name in ("out", "err"))
        self.log[-1] += f" -> {code}"
        assert "Traceback" not in errors, errors
        assert code != 1 or "verify" in arguments, out + errors
        return code, out, errors

    def infer(self, *arguments, **more):
        return self.end(self.start(*arguments, **more))

    def close(self):
        self.runner.communicate(timeout=60)
