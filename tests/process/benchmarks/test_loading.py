"""The ways of loading that benchmarks/loading.py compares: all run, and all yield the same pixels."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from loading_strategies.strategies import STRATEGIES, find_strategy
from loading_strategies.workload import PixelReaders, Workload

from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import load_settings
from tests.support.networks import SIZE, built, save_photos

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "loading.py"
FLOATS = ("naive", "vectorised", "pool", "dataloader", "prefetch", "drop-broken")
UINT8 = ("turbo", "fast-collate", "getitems", "database", "list-of-paths", "packed-paths", "threads", "stored")
MEASURED = ("pin-memory", "drop-broken", "no-model", "loader+model", "ring", "executor")  # by the program itself
NUM_IMAGES = 37  # two whole batches and a short one


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_strategies_are_measured_and_broken_files_are_named(tmp_path):
    save_photos(tmp_path / "photos", NUM_IMAGES)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"not a photo")
    assert {*FLOATS, *UINT8, *MEASURED} == {strategy.name for strategy in STRATEGIES}
    command = [sys.executable, PROGRAM, "--images", tmp_path / "photos", "--network", "null", "--workers", "2"]
    told = subprocess.run([*command, "--only", *MEASURED], capture_output=True, text=True, check=True).stdout
    assert f"broken: {tmp_path / 'photos' / 'broken.jpg'}: unsupported_format" in told
    rates = dict(line.split(": ", 1) for line in told.splitlines() if line.split(":")[0] in MEASURED)
    without = {name: text for name, text in rates.items() if not text.endswith(" images/s")}
    assert rates.keys() == {*MEASURED}
    assert without == {} if torch.cuda.is_available() else list(without) == ["pin-memory"]
    assert told.count("1 broken dropped") == len([one for one in MEASURED if find_strategy(one).takes_broken])


@pytest.mark.parametrize("name", [*FLOATS, *UINT8])
def test_all_yield_the_same_pixels_in_whole_batches(name, tmp_path):
    paths = sorted(map(str, save_photos(tmp_path / "photos", NUM_IMAGES).iterdir()))
    (tmp_path / "infer.toml").touch()
    readers = PixelReaders(built(tmp_path), ReadLimits((tmp_path,), 1 << 20), 1 << 20)
    workload = Workload(paths, readers, 2, load_settings(tmp_path / "infer.toml"))
    batches = [torch.as_tensor(batch).numpy() for batch in find_strategy(name).run(workload)]
    assert sorted(map(len, batches)) == [5, 16, 16]
    pixels = np.concatenate(batches)
    if name in FLOATS:
        expected = np.stack([readers.normalised(readers.with_pillow(path)) for path in paths])
        np.testing.assert_array_equal(pixels, expected)
    else:
        expected = np.stack([readers.with_turbo(path) for path in paths])
        assert pixels.shape == (NUM_IMAGES, SIZE, SIZE, 3)
        np.testing.assert_array_equal(sorted(map(bytes, pixels)), sorted(map(bytes, expected)))
