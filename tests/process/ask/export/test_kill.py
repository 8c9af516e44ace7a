"""A process that is killed while it writes leaves the file of the last export, and nothing else."""

import subprocess
import sys

import pytest

from infer_app.ask.export.formats.export_formats import FORMATS, write_export
from tests.support.exports import CAT, detected, export_of, made_for

IMAGES = 20_000  # more than the buffers of a file hold
PROGRAM = f"""
import sys, time
from dataclasses import replace
from pathlib import Path
from infer_app.ask.export.formats.export_formats import write_export
from tests.support.exports import CAT, DATE, detected, export_of, made_for

def read():
    for number in range({IMAGES}):
        yield DATE, detected(str(number), CAT)
    print("written", flush=True)
    time.sleep(600)

export = made_for(sys.argv[1], replace(export_of(), read_predictions=read, read_rejected=tuple))
write_export(sys.argv[1], Path(sys.argv[2]), export)
"""


@pytest.mark.parametrize(
    "name", [name if name in ("coco", "yolo") else pytest.param(name, marks=pytest.mark.slow) for name in FORMATS]
)
def test_a_killed_export_leaves_no_half_file(tmp_path, name):
    target = tmp_path / "out"
    is_folder = FORMATS[name].is_folder
    if not is_folder:
        target.write_text("earlier")
    with subprocess.Popen([sys.executable, "-c", PROGRAM, name, target], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        process.kill()
    if is_folder:
        assert [path.name for path in tmp_path.iterdir()] == [".out.new"]
    else:
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "earlier")]
    write_export(name, target, made_for(name, export_of(detected("1", CAT))))
    beside = {"label-studio": ["out-config.xml"]}.get(name, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", *beside]
