"""Simulate projects of camera traps night by night, with faults that are known, and score what each morning says.

Photos are small pictures of a scene of each camera, by day and by night, whose number and light follow weekdays,
weather and the season. Each night `infer run -q` runs with the clock set to the morning after the day, and its lines
are compared with the faults: a fault is named by a line that has its camera's name and a word of its kind. Beside it
stands a rule on numbers alone: a camera is named on the first day that is 3 standard deviations from its 28 days
before.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from machine import describe_machine
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.clock import LIBRARY, Clock
from tests.support.detectors import SIZE, built_detector
from tests.support.projects import Project
from tests.support.watched import stating

Pixels: TypeAlias = NDArray[np.float32]  # (HEIGHT, WIDTH), levels 0-255
ROOT = Path(__file__).resolve().parents[1]
SAVED = Path(__file__).parent / "results" / "cameras.md"
FIRST_DAY = date(2026, 6, 1)
HEIGHT, WIDTH = 120, 160
OFTEN, RARELY = (12, 40), 0.15  # photos a day; of cameras that send rarely, the share of days on which some come
DAYS_BEFORE, FEWEST_BEFORE, NUM_SIGMA = 28, 7, 3.0  # of the rule on numbers
PER_CAMERA_DAYS = 200
WORDS = {  # by kind of fault: what a line says that names it
    "silent": r"no (images|photos)",
    "flash dead": r"\b(dark|black|flash)",
    "overexposed": r"overexposed|too bright|white",
    "covered": r"blur|cover",
    "frozen": r"frozen|same picture",
    "clock wrong": r"clock|before 1995|future",
    "moved": r"moved|turned|another scene|unlike",
    "flooded": r"blank|flood",
    "rejected": r"reject|broken",
    "renamed": r"renamed|the bytes of",
}
SEEDED = [kind for kind in WORDS if kind != "renamed"]


class Reddish(nn.Module):
    """(n, 16, 6), for the head `boxes`: the cells of a grid of 4 x 4, with how much redder than green each is."""

    cells: Tensor

    def __init__(self) -> None:
        super().__init__()
        step = SIZE // 4
        corners = [[x, y, x + step, y + step] for y in range(0, SIZE, step) for x in range(0, SIZE, step)]
        self.register_buffer("cells", torch.tensor(corners, dtype=torch.float32))

    def forward(self, pixels: Tensor) -> Tensor:
        means = torch.nn.functional.adaptive_avg_pool2d(pixels, (4, 4)).flatten(2)
        scores = (6 * (means[:, 0] - means[:, 1])).clamp(0, 0.95).unsqueeze(2)
        return torch.cat([self.cells.expand(pixels.shape[0], 16, 4), scores, torch.zeros_like(scores)], 2)


@dataclass(frozen=True, slots=True)
class Fault:
    camera: str
    kind: str
    days: range  # numbers of the days on which it holds
    former: str = ""  # the name of one that was renamed


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    num_cameras: int
    num_days: int
    faults: Sequence[Fault] = ()
    is_rare: bool = False
    falls_on: int | None = None  # the day from which all cameras bring a tenth
    upgraded_on: int | None = None  # the day before whose night rows lose what older versions don't store
    renamed_on: int | None = None  # the day after which the last camera's folder has another name


@dataclass(frozen=True, slots=True)
class Shot:
    at: datetime
    is_night: bool
    has_animal: bool


@dataclass
class Camera:
    """A camera, and what it takes."""

    name: str
    seed: int
    rate: float  # photos a day
    is_rare: bool = False
    frozen: Image.Image | None = field(default=None, init=False)

    @cached_property
    def scene(self) -> Pixels:
        return make_scene(self.seed)

    @cached_property
    def other_scene(self) -> Pixels:
        return make_scene(self.seed + 100_000)


def main() -> None:
    flags = read_flags()
    if LIBRARY is None:
        raise SystemExit("faketime is missing: apt-get install faketime")
    found = list[Outcome]()
    for scenario in make_scenarios(flags.cameras, flags.days, flags.seed):
        if scenario.name in flags.scenario:
            found.append(simulate(scenario, flags.seed))
            print(f"{scenario.name}: {found[-1].seconds:.0f} s", flush=True)
    lines = [*tell_faults(found), "", *tell_false(found), "", *tell_examples(found)]
    machine = describe_machine()
    command = f"python benchmarks/cameras.py --cameras {flags.cameras} --days {flags.days} --seed {flags.seed}"
    lines += ["", f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']};"]
    lines += [f"`{command}`, {date.today().isoformat()}"]
    print("\n".join(lines))
    if flags.save:
        SAVED.write_text("\n".join(["# Which camera is ill", "", *explain(), "", *lines, ""]))


def make_scenarios(num_cameras: int, num_days: int, seed: int) -> list[Scenario]:
    half = num_days // 2
    return [
        Scenario("faults", num_cameras, num_days, seed_faults(num_cameras, num_days, seed), renamed_on=half),
        Scenario("rare", num_cameras * 15 // 2, num_days, is_rare=True),
        Scenario("summer", num_cameras, num_days, falls_on=num_days * 2 // 3),
        Scenario("upgrade", num_cameras, num_days, upgraded_on=half),
    ]


def seed_faults(num_cameras: int, num_days: int, seed: int) -> list[Fault]:
    """Return two faults of each camera but every fifth and the last, which is renamed."""
    random = np.random.default_rng([seed, 1])
    length, spread, found = max(2, num_days // 10), max(1, num_days * 3 // 20), list[Fault]()
    ill = [number for number in range(num_cameras - 1) if number % 5 != 4]
    kinds = [SEEDED[number % len(SEEDED)] for number in range(2 * len(ill))]
    for kind, (wave, number) in zip(kinds, [(wave, number) for wave in (0.4, 0.72) for number in ill], strict=True):
        first = int(wave * num_days) + int(random.integers(spread))
        found.append(Fault(name_of(number), kind, range(first, first + length)))
    renamed = range(num_days // 2, num_days)  # the former name's photos stay registered
    return [*found, Fault(name_of(num_cameras), "renamed", renamed, name_of(num_cameras - 1))]


def name_of(number: int) -> str:
    return f"cam{number + 1:03}"


# What the cameras take


def make_scene(seed: int) -> Pixels:
    """Return a scene of large and small shapes: (HEIGHT, WIDTH), around 110."""
    random = np.random.default_rng([seed, 2])
    large = Image.fromarray(random.uniform(50, 170, (6, 8)).astype(np.float32)).resize((WIDTH, HEIGHT))
    small = Image.fromarray(random.normal(0, 22, (HEIGHT // 2, WIDTH // 2)).astype(np.float32)).resize((WIDTH, HEIGHT))
    return np.asarray(large) + np.asarray(small)


class Weather:
    """Light, wind and the number of photos of each day, which all cameras share."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        random = np.random.default_rng([seed, 3])
        self._clouds, self._wind, now = list[float](), list[float](), 0.0
        for _ in range(scenario.num_days):
            now = 0.6 * now + random.normal(0, 0.8)
            self._clouds.append(float(1 / (1 + np.exp(-now))))
            self._wind.append(float(np.exp(0.5 * now)))
        self._falls_on = scenario.falls_on

    def light(self, day: int) -> float:
        return 1.1 - 0.5 * self._clouds[day] - 0.003 * day  # days become darker

    def num_blanks(self, day: int) -> float:
        return 0.3 * self._wind[day]  # of wind, for each photo with an animal

    def activity(self, day: int) -> float:
        weekday = (FIRST_DAY + timedelta(days=day)).weekday()
        fallen = 0.1 if self._falls_on is not None and day >= self._falls_on else 1.0
        return (1.3 if weekday >= 5 else 0.9) * (1 - 0.004 * day) * fallen


def take_day(camera: Camera, day: int, weather: Weather, fault: Fault | None, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of a camera's photos of a day; a day on which a fault begins has enough to see it."""
    random = np.random.default_rng([seed, 4, camera.seed, day])
    kind = fault.kind if fault else ""
    if kind == "silent" or (camera.is_rare and random.random() > RARELY):
        return
    shots = sorted(list_shots(camera, day, weather, kind, random), key=lambda shot: shot.at)
    if fault and day == fault.days[0]:
        camera.frozen = None
        night = datetime.combine(FIRST_DAY + timedelta(days=day), datetime.min.time())
        shots = [Shot(night + timedelta(minutes=7 * n), True, n % 2 == 0) for n in range(4)] + shots
    for number, shot in enumerate(shots):
        picture = take(camera, shot, day, weather, kind, random)
        at = shot.at - timedelta(days=365) if kind == "clock wrong" else shot.at
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=80, exif=stating(f"{at:%Y:%m:%d %H:%M:%S}"))
        content = file.getvalue()
        is_cut = kind == "rejected" and random.random() < 0.85
        yield f"{FIRST_DAY + timedelta(days=day)}_{number:04}.jpg", content[: len(content) // 2] if is_cut else content


def list_shots(camera: Camera, day: int, weather: Weather, kind: str, random: np.random.Generator) -> Iterator[Shot]:
    of_animals = random.poisson(camera.rate * weather.activity(day) / 1.3)
    of_wind = random.poisson(camera.rate * weather.num_blanks(day) * (12 if kind == "flooded" else 1) / 1.3)
    start = datetime.combine(FIRST_DAY + timedelta(days=day), datetime.min.time())
    for number in range(of_animals + of_wind):
        minute = int(random.integers(24 * 60)) if number < of_animals else int(random.integers(6 * 60, 20 * 60))
        hour = minute // 60
        is_night = hour < 5 or hour >= 21
        at = start + timedelta(minutes=minute, seconds=int(random.integers(60)))
        yield Shot(at, is_night, number < of_animals)


def take(camera: Camera, shot: Shot, day: int, weather: Weather, kind: str, random: np.random.Generator) -> Image.Image:
    if kind == "frozen" and camera.frozen:
        return camera.frozen
    scene = camera.other_scene if kind == "moved" else camera.scene
    hour = shot.at.hour + shot.at.minute / 60
    by_day = weather.light(day) * (0.55 + 0.45 * np.sin(np.pi * np.clip((hour - 4) / 18, 0, 1)))
    light = (0.02 if kind == "flash dead" else 0.5) if shot.is_night else by_day
    levels = scene * light + random.normal(0, 5 if shot.is_night else 3, scene.shape)
    red = levels.copy()
    if shot.has_animal:
        height, width = (int(one) for one in random.integers(30, 60, 2))
        top, left = int(random.integers(HEIGHT - height)), int(random.integers(WIDTH - width))
        red[top : top + height, left : left + width] += 90 * light
        levels[top : top + height, left : left + width] *= 0.6
    if kind == "overexposed":
        red, levels = 3 * red + 150, 3 * levels + 150
    picture = Image.fromarray(np.stack([red, levels, levels], -1).clip(0, 255).astype(np.uint8))
    if kind == "covered":
        picture = Image.blend(Image.new("RGB", picture.size, (90, 90, 90)), picture, 0.25)
        picture = picture.filter(ImageFilter.GaussianBlur(8))
    camera.frozen = picture
    return picture


# The nights


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the mornings of a scenario said: lines by the number of the day before, and what a rule on numbers says."""

    scenario: Scenario
    names: Sequence[str]
    lines: Mapping[int, Sequence[str]]
    by_rule: Mapping[int, Sequence[str]]
    seconds: float

    def fault_of(self, camera: str, day: int) -> Fault | None:
        faults = (one for one in self.scenario.faults if camera in (one.camera, one.former))
        return next((one for one in faults if day in one.days), None)

    def named(self, line: str) -> list[str]:
        return [name for name in self.names if re.search(rf"\b{name}\b", line)]

    def first_named(self, fault: Fault) -> int | None:
        """Return after how many mornings a line had the fault's camera and a word of its kind; 1 is the next."""
        for day in fault.days:
            for line in self.lines[day]:
                if fault.camera in self.named(line) and re.search(WORDS[fault.kind], line):
                    return day - fault.days[0] + 1
        return None

    def find_false(self) -> Iterator[tuple[int, str]]:
        """Yield lines that name a camera, none of which has a fault."""
        for day, lines in self.lines.items():
            for line in lines:
                named = self.named(line)
                if named and not any(self.fault_of(name, day) for name in named):
                    yield day, line

    @property
    def camera_days(self) -> int:
        return len(self.names) * len(self.lines) - sum(len(one.days) for one in self.scenario.faults)


def simulate(scenario: Scenario, seed: int) -> Outcome:
    started, random = time.perf_counter(), np.random.default_rng([seed, 5])
    rates = np.exp(random.uniform(*np.log(OFTEN), scenario.num_cameras))
    cameras = [
        Camera(name_of(number), 1000 * seed + number, float(rate) / (3 if scenario.is_rare else 1), scenario.is_rare)
        for number, rate in enumerate(rates)
    ]
    weather, numbers = Weather(scenario, seed), defaultdict[str, list[int]](list)
    lines, by_rule = dict[int, list[str]](), dict[int, list[str]]()
    with tempfile.TemporaryDirectory(prefix="infer-cameras-") as folder:
        project = make_project(Path(folder) / "project")
        for day in range(scenario.num_days):
            for camera in cameras:
                fault = next((f for f in scenario.faults if f.camera == camera.name and day in f.days), None)
                numbers[camera.name].append(save_day(project, camera, day, weather, fault, seed))
            if day == scenario.upgraded_on:
                forget_figures(project)
            lines[day] = run_night(project, day)
            by_rule[day] = [name for name, own in numbers.items() if is_unusual(own) and not is_unusual(own[:-1])]
            if day + 1 == scenario.renamed_on:
                last = cameras[-1]
                new = name_of(len(cameras))
                (project.photos / last.name).rename(project.photos / new)
                numbers[new] = numbers.pop(last.name)
                last.name = new
    names = [name_of(number) for number in range(len(cameras) + (scenario.renamed_on is not None))]
    return Outcome(scenario, names, lines, by_rule, time.perf_counter() - started)


def make_project(folder: Path) -> Project:
    project = Project(folder)
    built_detector(folder, Reddish(), "boxes", name="animals")
    project.set("images", watch=["photos"], day="taken")
    project.set("source", camera="folder:1")
    project.set("events", gap="60s")
    project.set("run", time_zone="UTC")
    return project


def save_day(project: Project, camera: Camera, day: int, weather: Weather, fault: Fault | None, seed: int) -> int:
    folder = project.photos / camera.name
    folder.mkdir(exist_ok=True)
    arrived = datetime.combine(FIRST_DAY + timedelta(days=day + 1), datetime.min.time(), UTC).timestamp() + 3600
    num_photos = 0
    for name, content in take_day(camera, day, weather, fault, seed):
        (folder / name).write_bytes(content)
        os.utime(folder / name, (arrived, arrived))
        num_photos += 1
    return num_photos


def forget_figures(project: Project) -> None:
    """Let the rows be as an older version of the program left them, which stored no figures of pictures."""
    with closing(sqlite3.connect(project.folder / "infer.db")) as connection, connection:
        known = {name for _, name, *_ in connection.execute("PRAGMA table_info(infer_pictures)")}
        for name in sorted(known & {"brightness", "contrast", "sharpness", "look"}):
            connection.execute(f"UPDATE infer_pictures SET {name} = NULL")


def run_night(project: Project, day: int) -> list[str]:
    """Return the lines that a run at half past two after the day tells to look at. Raises SystemExit if it fails."""
    clock = Clock()
    morning = FIRST_DAY + timedelta(days=day + 1)
    clock.set(datetime(morning.year, morning.month, morning.day, 2, 30, tzinfo=UTC))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("INFER_")}
    environ |= {"PYTHONPATH": str(ROOT)} | clock.environ
    environ["FAKETIME_DONT_FAKE_MONOTONIC"] = "0"  # else libfaketime refuses a sleep
    command = [sys.executable, "-m", "infer_app", "run", "-q", "--workers", "1"]
    run = subprocess.run(command, cwd=project.folder, env=environ, capture_output=True, text=True)
    if run.returncode not in (0, 3):  # 3: too many were rejected
        raise SystemExit(f"the night after {morning}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return [line for line in run.stdout.splitlines() if re.match("attention: (?!over: )", line)]


def is_unusual(numbers: Sequence[int]) -> bool:
    """Return whether the last day is NUM_SIGMA standard deviations from those before."""
    before = numbers[-1 - DAYS_BEFORE : -1]
    if len(before) < FEWEST_BEFORE:
        return False
    return bool(abs(numbers[-1] - np.mean(before)) > NUM_SIGMA * np.std(before))


# What is told of it


def tell_faults(found: Sequence[Outcome]) -> Iterator[str]:
    yield "| fault | number | named the next morning | within 3 | while it lasted | by the rule, the next morning |"
    yield "|---|---:|---:|---:|---:|---:|"
    kinds = dict.fromkeys(one.kind for outcome in found for one in outcome.scenario.faults)
    for kind in (*kinds, "all"):
        pairs = [(one, fault) for one in found for fault in one.scenario.faults if kind in (fault.kind, "all")]
        if not pairs:
            continue
        after = [outcome.first_named(fault) or sys.maxsize for outcome, fault in pairs]
        by_rule = sum(fault.camera in outcome.by_rule[fault.days[0]] for outcome, fault in pairs)
        counts = [sum(one <= most for one in after) for most in (1, 3, sys.maxsize - 1)]
        cells = " | ".join(f"{count / len(pairs):.0%}" for count in (*counts, by_rule))
        yield f"| {kind} | {len(pairs)} | {cells} |"


def tell_false(found: Sequence[Outcome]) -> Iterator[str]:
    per = f"per {PER_CAMERA_DAYS} camera-days"
    yield f"| scenario | cameras | days | false notices | {per} | by the rule, {per} | lines that name no camera |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for one in found:
        false = sum(1 for _ in one.find_false())
        by_rule = sum(one.fault_of(name, day) is None for day, names in one.by_rule.items() for name in names)
        rates = " | ".join(f"{PER_CAMERA_DAYS * count / one.camera_days:.2f}" for count in (false, by_rule))
        others = sum(not one.named(line) for lines in one.lines.values() for line in lines)
        scenario = one.scenario
        yield f"| {scenario.name} | {scenario.num_cameras} | {scenario.num_days} | {false} | {rates} | {others} |"


def tell_examples(found: Sequence[Outcome]) -> Iterator[str]:
    """Yield how often each false line was told, with one line of each."""
    for one in found:
        example, counts = dict[str, str](), Counter[str]()
        for _, line in one.find_false():
            what = re.sub(r"\d+", "0", line)
            counts[what] += 1
            example.setdefault(what, line)
        for what, count in counts.most_common(5):
            yield f"- {one.scenario.name}, {count} ×: {example[what]}"


def explain() -> Iterator[str]:
    yield "What each morning's `infer run -q` says of simulated cameras: `faults` has known ones, `rare` cameras that"
    yield f"send on {RARELY:.0%} of the days, in `summer` all bring a tenth from a day on, in `upgrade` the rows lose"
    yield "half-way what older versions of the program don't store. The rule: a number of photos that is 3 standard"
    yield "deviations from those of the 28 days before; it knows no kind, so the camera alone counts. A line about a"
    yield "camera while it has a fault is not counted as false, whatever kind it names."


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=20)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    names = ["faults", "rare", "summer", "upgrade"]
    parser.add_argument("--scenario", nargs="+", choices=names, default=names)
    parser.add_argument("--save", action="store_true", help=f"write {SAVED.relative_to(ROOT)}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
