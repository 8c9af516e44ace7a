"""Build the networks of the page by its rows, and compare each with its own inference code: `make networks`.

Every network has an environment of its own below build/networks, which `make clean` deletes. Names of networks, as in
tests/networks/programs, choose some.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.networks.answers import load_program
from tests.networks.photos import gather_photos
from tests.networks.rows import PROGRAMS, RESULTS, ROOT, Row, page_rows, result_lines
from tests.support.photos import DATA

BUILD = ROOT / "build" / "networks"
ANSWERS = Path(__file__).with_name("answers.py")
AGAINST = """\
import json
from pathlib import Path

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())


def answer(path):
    return ANSWERS[Path(path).name]
"""
HEADING = """\
# Networks beside their own inference code

Written by `make networks`: what is the same as the networks' own programs give. Labels, or objects with the same label
and an overlap (IoU) of 0.9, or 0.8 where the program cuts boxes to whole pixels. Extra: objects of ours that it lacks.

| network | photos | same | extra | worst difference of scores | date | seconds |
|---|---:|---|---:|---:|---|---:|"""
REQUIRED = 0.99
WHOLE_PIXELS = 0.8  # overlap (IoU) from which boxes that a program cuts to whole pixels are the same
INFER = (sys.executable, "-m", "infer_app")


@dataclass(frozen=True)
class Figure:
    """How far the answers of a network's own program are ours."""

    num_photos: int
    unit: str
    num_theirs: int
    num_same: int
    num_extra: int  # objects of ours that are not theirs
    worst_score_difference: float | None

    @property
    def is_enough(self) -> bool:
        return 0 < REQUIRED * self.num_theirs <= self.num_same

    def __str__(self) -> str:
        return f"{self.num_same:,} of {self.num_theirs:,} {self.unit}"


def main(names: list[str]) -> int:
    photos = gather_photos(BUILD / "photos")
    failed = []
    for row in page_rows():
        if names and row.name not in names:
            continue
        begin = time.monotonic()
        try:
            figure = compare(row, photos)
        except subprocess.CalledProcessError as error:
            failed.append(row.name)
            print(f"{row.name}: {shlex.join(map(str, error.cmd))}\n{error.stdout}\n{error.stderr}", flush=True)
            continue
        if not figure.is_enough:
            failed.append(row.name)
        write_result(row, figure, round(time.monotonic() - begin))
    print(f"under {REQUIRED:.0%} or not run: {', '.join(failed)}" if failed else "all agree")
    return 1 if failed else 0


def write_result(row: Row, figure: Figure, seconds: int) -> None:
    """Put a network's line into the page of results, which keeps the lines of the others."""
    worst = "–" if figure.worst_score_difference is None else f"{figure.worst_score_difference:.3f}"
    cells = (figure.num_photos, figure, figure.num_extra, worst, f"{date.today():%Y-%m-%d}", seconds)
    lines = result_lines() | {row.name: f"| {row.name} | {' | '.join(map(str, cells))} |"}
    print(lines[row.name], flush=True)
    known = [lines[one.name] for one in page_rows() if one.name in lines]
    RESULTS.write_text("\n".join((HEADING, *known, "")))


def compare(row: Row, photos: Path) -> Figure:
    """Build a network by its row, and compare it with its own program. Raises CalledProcessError where a step fails."""
    program, folder = PROGRAMS / f"{row.name}.py", BUILD / row.name
    python = make_environment(folder, row.packages)
    project = folder / "project"
    shutil.rmtree(project, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "networks", project)
    module = load_program(program)
    photos = every(getattr(module, "EVERY", 1), photos, folder / "photos")
    run(python, ANSWERS, program, project, photos)
    (project / "own.py").write_text(AGAINST)
    (project / "infer.toml").write_text("")
    build(row, project, python)
    check = (*INFER, "model", "check", row.name, "--against", "own:answer", "--images", photos, "--json")
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(check, cwd=project, env=environ, capture_output=True, text=True)  # its exit code is a verdict
    if not done.stdout.startswith("{"):
        raise subprocess.CalledProcessError(done.returncode, check, done.stdout, done.stderr)
    report = json.loads(done.stdout)
    (folder / "report.json").write_text(done.stdout)
    answers = json.loads((project / "answers.json").read_text())
    return figure_of(report, answers, getattr(module, "WHOLE_PIXELS", False))


def build(row: Row, project: Path, python: Path) -> None:
    """Build as the page says: the network lies beside the model file, and the command runs there."""
    if not (project / row.file).exists():
        packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        shutil.copy(Path(packages) / row.file, project)
    run(*INFER, "model", "build", f"{row.name}.toml", cwd=project)


def every(step: int, photos: Path, folder: Path) -> Path:
    """Return a folder of every so many photos, for programs that take seconds for one, and of all that are made up."""
    if step == 1:
        return photos
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    real = sorted(path for path in photos.iterdir() if path.is_symlink())
    for path in (*real[::step], *(path for path in photos.iterdir() if not path.is_symlink())):
        (folder / path.name).symlink_to(path)
    return folder


def figure_of(report: dict, answers: dict, is_cut: bool) -> Figure:
    failures = report["their_failures"] + report["our_rejections"]
    if failures:
        print(f"  without an answer: {failures[:5]}")
    objects = report.get("objects")
    if objects is None:
        same = round(report["agreement"] * report["num_compared"])
        scores = report.get("scores")
        worst = None if scores is None else scores["worst_difference"]
        return Figure(report["num_images"], "labels", report["num_images"], same, 0, worst)
    least = min((row[4] for rows in answers.values() for row in rows if row[4] < 1), default=0)
    least_overlap = WHOLE_PIXELS if is_cut else 1
    near = [one for one in objects["differences"] if one["overlap"] >= least_overlap and one["found_by"] == "theirs"]
    extra = [
        one
        for one in objects["differences"]
        if one["overlap"] < least_overlap and one["found_by"] == "ours" and one["score"] >= least
    ]
    same = objects["num_found"] + len(near)
    worst = objects["worst_score_difference"] if least else None  # a program without scores gives 1
    return Figure(report["num_images"], "objects", objects["num_theirs"], same, len(extra), worst)


def make_environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """Return the interpreter of an environment with these packages, made unless it is there."""
    python, made = folder / "venv" / "bin" / "python", folder / "venv" / "packages.txt"
    wanted = "\n".join(packages)
    if not made.exists() or made.read_text() != wanted:
        shutil.rmtree(folder / "venv", ignore_errors=True)
        run(sys.executable, "-m", "venv", folder / "venv")
        run(python, "-m", "pip", "install", "--quiet", "--no-compile", "--cache-dir", BUILD / "cache", *packages)
        made.write_text(wanted)
    return python


def run(*command: str | Path, cwd: Path | None = None) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "INFER_"))}
    # A program's torchvision may be of another build than its torch, whose operators it doesn't find then.
    path = ROOT if command[: len(INFER)] == INFER else ROOT / "tests" / "support" / "torchvision_ops"
    environ |= {"TEST_DATA": str(DATA), "PYTHONPATH": str(path)}
    done = subprocess.run(command, cwd=cwd, env=environ, check=True, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
