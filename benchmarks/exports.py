"""Measure `infer export` of a day in each format: objects per second and peak memory of the whole process.

Each export is a process of its own, start-up included, on SQLite or on a private PostgreSQL. `--sizes` shows that
memory does not grow with the day.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from machine import describe_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sqlalchemy import insert

from infer_app.ask.export.formats.export_formats import FORMATS
from infer_app.tables.engine.connect import Database
from infer_app.tables.listing.image_registry import add_objects
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.schema import models, objects, predictions
from tests.databases import servers

AT = datetime(2026, 11, 20, 12)
MODEL = "0123456789abcdef"
PER_IMAGE = 20
PAGE = 1000  # images
CLASSES = 80


def main() -> None:
    flags = read_flags()
    print(" ".join(f"{key} {value};" for key, value in describe_machine().items()))
    print("| database | format | objects | seconds | objects/s | CPU s | peak MB | file MB |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for size in flags.sizes:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=flags.folder)))
            url = f"sqlite:///{folder / 'infer.db'}"
            if flags.database == "postgres":
                url = stack.enter_context(servers.new_database(stack.enter_context(servers.postgres()).url))
            fill(url, size)
            for name in flags.formats or FORMATS:
                measure(folder, url, name, size, flags.database)


def fill(url: str, num_objects: int) -> None:
    """Write a day of images with 20 objects each."""
    generator = random.Random(1)
    manifest = {"output": {"kind": "detection"}}
    of_model = {"model_id": MODEL, "run_id": "r", "variant": "cpu-openvino-fp32", "created_at": AT}
    predicted = of_model | {"output": "{}", "width": 4000, "height": 3000, "num_objects": PER_IMAGE}
    with Database(url) as database:
        upgrade(database)
        with database.write() as connection:
            row = {"id": MODEL, "name": "animals", "manifest": manifest, "created_at": AT, "in_use_since": AT}
            connection.execute(insert(models), row)
        for first in range(1, num_objects // PER_IMAGE + 1, PAGE):
            ids = range(first, min(first + PAGE, num_objects // PER_IMAGE + 1))
            add_objects(database, [(f"/srv/photos/cam{i % 50:02}/IMG_{i:06}.jpg", None) for i in ids], AT)
            with database.write() as connection:
                connection.execute(insert(predictions), [predicted | {"picture": i} for i in ids])
                rows = [box(generator, i, number) for i in ids for number in range(PER_IMAGE)]
                connection.execute(insert(objects), rows)


def box(generator: random.Random, image: int, number: int) -> dict[str, object]:
    index = generator.randrange(CLASSES)
    x, y, width, height = (generator.random() / 2 for _ in range(4))
    shape = {"x": x, "y": y, "width": width, "height": height}
    key = {"id": PER_IMAGE * image + number, "picture": image, "model_id": MODEL, "object": number}
    score = 1 - (number + generator.random()) / PER_IMAGE
    return key | shape | {"label": f"label {index}", "class_index": index, "score": score}


# The peak of the process itself: what wait4 gives includes the memory of this one, of which it was forked.
INFER = """
import sys
from infer_app.cli import main
try:
    main()
finally:
    [peak] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    print(peak.split()[1], file=sys.stderr)
"""


def measure(folder: Path, url: str, name: str, num_objects: int, database: str) -> None:
    target = folder / name
    (folder / "infer.toml").touch()
    command = [sys.executable, "-c", INFER, "export", "--date", "2026-11-20", "--format", name, "--to", str(target)]
    before, began = os.times(), time.monotonic()
    environ = os.environ | {"INFER_DATABASE__URL": url}
    done = subprocess.run([*command, "--json"], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    seconds, after = time.monotonic() - began, os.times()
    assert json.loads(done.stdout)["objects"] == num_objects, done.stdout
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    files = [file for file in (target.rglob("*") if target.is_dir() else [target]) if file.is_file()]
    num_mb = sum(file.stat().st_size for file in files) / 1e6
    row = [database, name, f"{num_objects:,}", f"{seconds:.1f}", f"{num_objects / seconds:,.0f}", f"{cpu:.1f}"]
    print("|", " | ".join([*row, f"{int(done.stderr) / 1024:.0f}", f"{num_mb:.0f}"]), "|", flush=True)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000], metavar="OBJECTS")
    parser.add_argument("--formats", nargs="+", choices=list(FORMATS), help="default: all")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--folder", type=Path, help="where the databases and files go; default: the temporary folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()
