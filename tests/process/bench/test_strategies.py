"""Every strategy yields the same pixels."""

from pathlib import Path

import numpy as np
import pytest
import torch

from infer_app.bench import dataloaders
from infer_app.bench.dataloaders import Unavailable
from infer_app.bench.strategies import STRATEGIES, find_strategy
from tests.process.bench.conftest import NUM_IMAGES
from tests.support.networks import MEAN, SIZE, STD

FLOATS = ("naive", "vectorised", "pool", "dataloader", "prefetch", "drop-broken")
UINT8 = ("turbo", "fast-collate", "getitems", "database", "list-of-paths", "packed-paths", "threads", "cache")
NEEDS_A_RUN = {"pin-memory", "lane", "loader+model", "ring", "executor"}


@pytest.fixture(autouse=True)
def _hundreds_are_many(monkeypatch):
    monkeypatch.setattr(dataloaders, "MANY", 300)


def pixels_of(name, load):
    """All batches as one array, each checked to be a full one but for the last."""
    batches = [torch.as_tensor(batch).numpy() for batch in find_strategy(name).run(load)]
    assert sorted(len(batch) for batch in batches) == [5, 16, 16]
    return np.concatenate(batches)


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_those_of_the_naive_loop(name, make_load, files):
    load = make_load(files)
    expected = np.stack([load.readers.normalised(load.readers.with_pillow(path)) for path in files])
    floats = pixels_of(name, load)
    assert (floats.shape, floats.dtype) == ((NUM_IMAGES, 3, SIZE, SIZE), np.float32)
    np.testing.assert_array_equal(floats, expected)


@pytest.mark.parametrize("name", UINT8)
def test_bytes_are_those_of_a_run(name, make_load, files):
    load = make_load(files)
    expected = np.stack([load.readers.with_turbo(path) for path in files])
    pixels = pixels_of(name, load)
    assert (pixels.shape, pixels.dtype) == ((NUM_IMAGES, SIZE, SIZE, 3), np.uint8)
    np.testing.assert_array_equal(sorted(map(bytes, pixels)), sorted(map(bytes, expected)))


def test_both_readers_agree_within_two_levels(make_load, files):
    readers = make_load(files).readers
    for path in files:
        np.testing.assert_allclose(readers.with_turbo(path).astype(int), readers.with_pillow(path).astype(int), atol=2)


def test_normalised_is_what_the_model_was_trained_on(make_load, files):
    pixels = make_load(files).readers.with_pillow(files[0])
    expected = ((torch.from_numpy(pixels) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)).permute(2, 0, 1)
    torch.testing.assert_close(torch.from_numpy(make_load(files).readers.normalised(pixels)), expected)


@pytest.mark.parametrize("name", ["drop-broken", "lane"])
def test_broken_files_are_dropped_and_no_others(name, make_load, files, tmp_path):
    cut, empty = tmp_path / "cut.jpg", tmp_path / "empty.jpg"
    cut.write_bytes(Path(files[0]).read_bytes()[:-200])
    empty.touch()
    load = make_load([*files[:10], str(cut), *files[10:], str(empty)])
    assert sum(len(batch) for batch in find_strategy(name).run(load)) == NUM_IMAGES


def test_a_batch_that_is_all_broken_has_no_images(make_load, tmp_path):
    (tmp_path / "empty.jpg").touch()
    assert [len(batch) for batch in find_strategy("drop-broken").run(make_load([str(tmp_path / "empty.jpg")] * 3))] == [
        0
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="pins where there is CUDA")
def test_pin_memory_names_what_is_missing(make_load, files):
    with pytest.raises(Unavailable, match="no CUDA"):
        next(find_strategy("pin-memory").run(make_load(files)))


def test_threads_keep_few_images_in_flight(make_load, files, monkeypatch):
    load = make_load(files * 4)
    loaded = []
    decode = type(load.readers).with_turbo
    monkeypatch.setattr(
        type(load.readers), "with_turbo", lambda readers, path: loaded.append(path) or decode(readers, path)
    )
    batches = find_strategy("threads").run(load)
    next(batches)
    assert len(loaded) <= 16 + 4 * load.num_workers
    assert sum(len(batch) for batch in batches) == len(load.paths) - 16


def test_every_strategy_is_in_the_table_once_with_a_description():
    names = [strategy.name for strategy in STRATEGIES]
    assert sorted(names) == sorted([*FLOATS, *UINT8, *NEEDS_A_RUN])
    assert all(20 < len(strategy.description) < 130 for strategy in STRATEGIES)


def test_packed_paths_are_the_paths():
    paths = ["/a", "", "/ü/\udcff.jpg", "/last"]
    packed = dataloaders.PackedPaths(iter(paths))
    assert (list(packed), packed[1:3], packed[-1], len(packed)) == (paths, paths[1:3], "/last", 4)
