import subprocess
import sys

import numpy as np
import pytest

from infer_app.images.cache.cache_file import PAGE_BYTES
from infer_app.images.cache.pixel_cache import PixelCache
from tests.unit.images.cache.test_pixel_cache import MANY, SIDE, found, key, put


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def filled(folder):
    """Twenty images, and the cache closed."""
    with PixelCache.open(folder, MANY, key()) as cache:
        put(cache, range(20))
    return folder / f"{SIDE}.pixels"


# --- finding --------------------------------------------------------------------------------------------------------


def test_a_cache_loads_neither_torch_nor_decoders():
    script = (
        "import sys, infer_app.images.cache.pixel_cache, infer_app.cli.project.cache; "
        "print({'torch', 'PIL'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


# --- the bound ------------------------------------------------------------------------------------------------------


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bytes_are_misses(filled, seed):
    intact, random = filled.read_bytes(), np.random.default_rng(seed)
    content = np.frombuffer(intact, np.uint8).copy()
    written = np.flatnonzero(content)
    written = written[written >= PAGE_BYTES]
    content[random.choice(written, 400, replace=False)] ^= np.uint8(1 << seed)
    filled.write_bytes(content)
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert len(found(cache, range(20))) < 20
        put(cache, range(20))
        assert found(cache, range(20)) == list(range(20))  # mended


@pytest.mark.parametrize("byte", [0, 1, 17, 40, PAGE_BYTES - 1])
def test_a_damaged_first_page_means_an_empty_cache(filled, byte):
    content = bytearray(filled.read_bytes())
    content[byte] ^= 255
    filled.write_bytes(content)
    with PixelCache.open(filled.parent, MANY, key()) as cache:
        assert found(cache, range(20)) == []
        put(cache, range(20))
        assert found(cache, range(20)) == list(range(20))


# --- where there can be none ----------------------------------------------------------------------------------------
