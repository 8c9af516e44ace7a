"""The programs that `infer run` is compared with."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[3] / "benchmarks" / "programs"


@pytest.mark.slow
def test_a_network_that_openvino_can_not_open_ends_the_program_with_its_error(tmp_path):
    with closing(sqlite3.connect(tmp_path / "infer.db")) as connection, connection:
        connection.execute("CREATE TABLE infer_images (id INTEGER, location TEXT)")
        connection.execute("INSERT INTO infer_images VALUES (1, '/a.jpg')")
    command = [sys.executable, PROGRAMS / "openvino_processes.py", tmp_path / "infer.db", tmp_path / "nowhere.ts"]
    ended = subprocess.run([*command, "--ready", "openvino-f32"], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1
    assert "nowhere.xml" in ended.stderr
