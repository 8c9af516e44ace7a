"""A night over any database, disturbed at will, and what must hold after it: I1 to I6 of the fault contract.

I1  eligible = predicted + rejected + pending, by rows        I4  the tables equal those of a run nobody disturbed
I2  no image twice                                            I5  no process, shared memory or temporary file is left
I3  a reason of the list, with the file's sha256 and size     I6  exit code and JSON agree with the tables
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
from sqlalchemy import bindparam, create_engine, text
from sqlalchemy.pool import NullPool

from infer_app.base.domain import Output, Reason
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import upgrade
from tests.faults import launch
from tests.faults.stub import GOOD, answer
from tests.support import preloaded
from tests.support.leftovers import shared_memory
from tests.support.projects import REJECTED
from tests.support.results import register_rows
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
DATE = "2026-11-20"
MARK = "FAULTS_NIGHT"  # in the environment of every process of a night
RESULTS = ("infer_predictions", "infer_rejections", "infer_runs", "infer_objects", "infer_object_predictions")
CONFIG = """
[database]
url = "{url}"
[images]
roots = ["{photos}"]
[run]
lookback = 0
workers = 2
chunk_size = 4
model = "slow"
"""


@dataclass
class Ended:
    """How a run ended; the answer is None where it was killed or told nothing."""

    exit_code: int
    out: str
    err: str

    @property
    def answer(self) -> dict | None:
        return json.loads(self.out) if self.out.strip() else None


class ProjectRun:
    """A folder with infer.toml, files for the stub handler, and a database that they are registered in."""

    faults: dict[str, object] = {}  # noqa: RUF012  # of every run

    def __init__(self, folder: Path, url: str, models: Path) -> None:
        self.folder, self.url, self.models = folder, url, models
        self.photos, self.temporary = folder / "photos", folder / "tmp"
        for each in (folder, self.photos, self.temporary):
            each.mkdir()
        shutil.copytree(models, folder / "models")
        self.configure(url)
        self.mark = uuid.uuid4().hex
        self.shared = shared_memory()
        self.engine = create_engine(Database(url).url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with Database(url) as database:
            upgrade(database)

    def configure(self, url: str) -> None:
        (self.folder / "infer.toml").write_text(CONFIG.format(url=url, photos=self.photos))

    # The day

    def add(self, contents: list[bytes], date: str = DATE) -> None:
        """Files with these contents, registered for noon of the date."""
        at, known = datetime.fromisoformat(f"{date} 12:00:00"), self.rows("SELECT count(*) FROM infer_images")[0][0]
        paths = [self.photos / f"{number:05}.jpg" for number, _ in enumerate(contents, known + 1)]
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        with self.engine.connect() as connection:
            register_rows(connection, *({"location": str(path), "added_at": at} for path in paths))

    def reset(self) -> None:
        """As if nothing had run."""
        for table in (*RESULTS, "infer_models"):
            self.execute(f"DELETE FROM {table}")

    def execute(self, sql: str, **values: object) -> None:
        statement = text(sql).bindparams(*map(bindparam, values))
        with self.engine.connect() as connection:
            connection.execute(statement, values)

    def rows(self, sql: str) -> list[tuple]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

    # Runs

    def start(self, *more: str, date: str = DATE, prefix: tuple[str, ...] = (), **faults: object) -> subprocess.Popen:
        return self.start_command("run", "--date", date, "--json", *more, prefix=prefix, **faults)

    def start_command(self, *arguments: str, prefix: tuple[str, ...] = (), **faults: object) -> subprocess.Popen:
        """`infer …` in a process group of its own."""
        command = [*prefix, sys.executable, "-m", "tests.faults.launch", *self._given(*arguments, **faults)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            command, cwd=self.folder, env=self._environ(), text=True, start_new_session=True, **pipes
        )

    def run(self, *more: str, date: str = DATE, **faults: object) -> Ended:
        if preloaded.always_new or {**self.faults, **faults}.keys() & launch.BEFORE_IMPORTS:
            return self.wait(self.start(*more, date=date, **faults))
        given = self._given("run", "--date", date, "--json", *more, **faults)
        ended = preloaded.run_forked((launch.__file__, *given), self.folder, self._environ())
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def _given(self, *arguments: str, **faults: object) -> tuple[str, ...]:
        return json.dumps({"is_stub": True} | self.faults | faults), *arguments

    def _environ(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(self.temporary), MARK: self.mark}

    def wait(self, run: subprocess.Popen, timeout_s: float = 100) -> Ended:
        try:
            out, err = run.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            raise AssertionError(f"hangs: {run.communicate()[1][-3000:]}") from None
        return Ended(run.returncode, out, err)

    def wait_for_results(self, run: subprocess.Popen, count: int) -> None:
        """Until so many images are done, or the run has ended."""
        wait_until(lambda: run.poll() is not None or len(self.results()) >= count)

    def finish(self, exit_code: int = 0, date: str = DATE) -> Ended:
        """A run that nothing happens to, after which everything must hold."""
        ended = self.run(date=date)
        self.check_end(ended, exit_code, date)
        return ended

    # What must hold

    def results(self) -> list[tuple]:
        """Every column that says something about an image, floats to the last bit."""
        predicted = self.rows(
            "SELECT picture, variant, label, score, sha256, vector, vector_dtype, vector_dim FROM infer_predictions"
        )
        rejected = self.rows("SELECT picture, reason, detail, stage, attempts, size, sha256 FROM infer_rejections")
        return sorted([*((*row[:5], bytes(row[5]), *row[6:]) for row in predicted), *rejected], key=repr)

    def expected(self, date: str = DATE) -> list[tuple]:
        """Return the results of an undisturbed run, from the files themselves, in the variant that all runs had."""
        ((variant,),) = self.rows("SELECT DISTINCT variant FROM infer_runs")
        rows = []
        for number, location in self.images(date):
            path = Path(location)
            if not path.exists():
                rows.append((number, "not_found", "no such file", "read", 1, None, None))
                continue
            content = path.read_bytes()
            found, sha256 = answer(content), hashlib.sha256(content).hexdigest()
            if isinstance(found, Output):
                own = (found.label, found.score, sha256, found.vector, found.vector_dtype, found.vector_dim)
                rows.append((number, variant, *own))
            else:
                rows.append((number, found.value, "no photo", "decode", 1, len(content), sha256))
        return sorted(rows, key=repr)

    def check_end(self, ended: Ended, exit_code: int = 0, date: str = DATE) -> None:
        """All that must hold after a run that has done its day."""
        assert ended.exit_code == exit_code, f"exit code {ended.exit_code}\n{ended.out}\n{ended.err}"
        assert "Traceback" not in ended.err
        self.check(ended, date)
        assert self.results() == self.expected(date), "I4"

    def check(self, ended: Ended | None = None, date: str = DATE, model_id: str | None = None) -> None:
        """All that must hold at any time once no run is left; I6 where a run has ended by itself.

        Of one that was killed the next one removes what lies in the temporary folder.
        """
        of_model = f"WHERE model_id = '{model_id}'" if model_id else ""
        predicted, rejected = (
            [row[0] for row in self.rows(f"SELECT picture FROM {table} {of_model}")] for table in RESULTS[:2]
        )
        assert len({*predicted, *rejected}) == len(predicted) + len(rejected), "I2"
        day = {number for number, _ in self.images(date)}
        counts = {"eligible": len(day), "predicted": len(day & {*predicted}), "rejected": len(day & {*rejected})}
        counts["pending"] = len(day - {*predicted} - {*rejected})
        self._check_rejections()
        was_killed = ended is not None and ended.exit_code == -signal.SIGKILL
        self._check_nothing_left(was_killed)
        if ended is not None and ended.answer is not None and not was_killed:  # it may have answered before
            self._check_answer(ended, counts)

    def _check_rejections(self) -> None:
        for location, reason, size, sha256 in self.rows(f"SELECT location, reason, r.size, r.sha256 FROM {REJECTED}"):
            assert reason in set(Reason), "I3"
            if reason in ("empty", "unsupported_format") and Path(location).exists():
                assert len(sha256) == 64, "I3"
                assert size is not None, "I3"

    def _check_nothing_left(self, was_killed: bool) -> None:
        nothing, end = ([], set()), time.monotonic() + 60
        while (left := (self.processes(), shared_memory() - self.shared)) != nothing and time.monotonic() < end:
            time.sleep(0.05)  # what others of this machine are just making or removing is nobody's for a moment
        assert left == nothing, "I5"
        assert was_killed or list(self.temporary.iterdir()) == [], "I5"

    def _check_answer(self, ended: Ended, counts: dict[str, int]) -> None:
        answer = ended.answer
        assert answer["exit_code"] == ended.exit_code, "I6"
        if "run_id" not in answer:  # an error
            return
        assert answer["day"] == counts, "I1 or I6"
        (row,) = self.rows(
            f"SELECT state, exit_code, selected, predicted, rejected FROM infer_runs WHERE id = '{answer['run_id']}'"
        )
        told = (answer["exit_code"], answer["selected"], answer["predicted"], answer["rejected"])
        assert row == ("done", *told), "I6"
        assert sum(answer["reasons"].values()) == answer["rejected"], "I6"

    def processes(self) -> list[psutil.Process]:
        """Those of this night, by their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def images(self, date: str) -> list[tuple[int, str]]:
        images = self.rows("SELECT id, location, added_at FROM infer_images ORDER BY id")
        return [(number, location) for number, location, added_at in images if str(added_at).startswith(date)]


def slow_photos(count: int) -> list[bytes]:
    """Contents of which two workers do thirty in a second."""
    return [GOOD + f"slow {number}".encode() for number in range(count)]


def photos(count: int, seed: int = 0) -> list[bytes]:
    """Contents for a day: an empty one and one that is no photo among the good ones."""
    contents = [GOOD + f"{seed} {number}".encode() for number in range(count)]
    contents[count // 3] = b""
    contents[count // 2] = f"no photo {seed}".encode()
    return contents
