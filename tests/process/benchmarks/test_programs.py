"""The programs that `infer run` is compared with, and the detector that they run, made small."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch
from large_detector import NUM_CLASSES, large_detector

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


def test_the_detector_finds_objects_that_a_small_change_of_the_pixels_does_not_move():
    pixels = torch.rand(2, 3, 128, 192, generator=torch.Generator().manual_seed(0))
    network = large_detector(pixels, width=0.1, depth=0.1)
    with torch.no_grad():
        rows, others = network(pixels), network(pixels + 1e-4)
    assert rows.shape == (2, 3 * (16 * 24 + 8 * 12 + 4 * 6 + 2 * 3), 5 + NUM_CLASSES)
    best, other = (rows[..., 4:5] * rows[..., 5:]).topk(2).values.unbind(-1)
    objects = best > 0.25
    assert 0 < objects.sum() < 30
    assert best.max() < 0.99
    assert (best - other)[objects].min() > 0.1
    assert (others - rows)[objects].abs().max() < 5  # pixels of boxes of up to 400


def test_programs_keep_the_best_of_overlapping_objects(monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    network = pytest.importorskip("network")
    rows = [[50, 50, 20, 20, 0.9, 0.1, 0.8], [51, 50, 20, 20, 0.8, 0.1, 0.8], [90, 50, 20, 20, 0.5, 0.5, 0.1]]
    classes, scores = network.best_classes(torch.tensor([rows, [[0.0] * 7] * 3]))
    assert classes == [[1, 0], []]
    assert scores == [pytest.approx([0.72, 0.25]), []]
    for name in ("network", "pixels"):
        del sys.modules[name]
