"""The cache on the way of real files, and the commands that look after it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import PixelCache
from infer_app.images.decode.decoder import DecodeLimits, decode_image
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.read_image import ReadLimits, read_image
from infer_app.images.transform.to_pixels import transform
from infer_app.recipe import Recipe, Size
from tests.support.projects import Project

RECIPE = Recipe("resize-crop", 64, resize=72)
MAX_SIZE = 10**8


class Lane:
    """Read, then the cache, then decode and transform: what a handler does of it, with the decoding counted."""

    def __init__(self, roots: Path, cache: PixelCache | None, recipe: Recipe = RECIPE, max_pixels: int = 10**6) -> None:
        self._read_limits, self._decode_limits = ReadLimits((roots,), 10**6), DecodeLimits(max_pixels)
        self._cache, self._recipe = cache, recipe
        self.num_decoded = 0

    def load(self, path: Path) -> list[int] | str:
        """All its pixels, or the reason why there are none."""
        try:
            return self._load(path).flatten().tolist()
        except BadImage as bad:
            return bad.reason

    def _load(self, path: Path) -> torch.Tensor:
        image = read_image(str(path), self._read_limits)
        row = torch.empty(self._recipe.size.shape, dtype=torch.uint8)
        if self._cache is not None and self._cache.get(image.facts.sha256, row.numpy()):
            return row
        self.num_decoded += 1
        picture = decode_image(image.data, self._recipe, self._decode_limits)
        pixels = transform(picture, self._recipe)
        if self._cache is not None:
            self._cache.put(image.facts.sha256, pixels.numpy(), Size(picture.width, picture.height))
        return pixels


def open_cache(folder: Path, recipe: Recipe = RECIPE, max_pixels: int = 10**6) -> PixelCache:
    cache = PixelCache.open(folder, MAX_SIZE, CacheKey.of(recipe, max_pixels))
    assert cache is not None
    return cache


@pytest.fixture
def photos(tmp_path):
    """Twenty photos as JPEG and PNG, and three files that are none."""
    folder = tmp_path / "photos"
    folder.mkdir()
    noise = np.random.default_rng(1)
    for number in range(20):
        suffix = "png" if number % 4 == 0 else "jpg"
        photo = Image.fromarray(noise.integers(0, 256, (6, 8, 3), np.uint8)).resize((90 + number, 80))
        photo.save(folder / f"{number:02}.{suffix}")
    (folder / "cut.jpg").write_bytes((folder / "01.jpg").read_bytes()[:900])
    (folder / "empty.jpg").write_bytes(b"")
    (folder / "text.jpg").write_text("no photo")
    return sorted(folder.iterdir())


def test_with_a_cache_every_result_is_the_same(photos, tmp_path):
    expected = [Lane(tmp_path, None).load(photo) for photo in photos]
    assert sum(isinstance(one, str) for one in expected) == 3
    for _ in range(3):
        with open_cache(tmp_path / "cache") as cache:
            assert [Lane(tmp_path, cache).load(photo) for photo in photos] == expected


@pytest.mark.always
def test_a_second_model_decodes_nothing_but_what_was_rejected(photos, tmp_path):
    decoded = []
    for _ in range(2):
        with open_cache(tmp_path / "cache") as cache:
            handler = Lane(tmp_path, cache)
            for photo in photos:
                handler.load(photo)
            decoded.append(handler.num_decoded)
    assert decoded == [22, 2]  # the empty file is refused before


def test_a_changed_file_is_decoded_again(photos, tmp_path):
    with open_cache(tmp_path / "cache") as cache:
        handler = Lane(tmp_path, cache)
        before = handler.load(photos[1])
        photos[1].write_bytes(photos[2].read_bytes())
        assert handler.load(photos[1]) == Lane(tmp_path, None).load(photos[2]) != before


def test_a_copy_of_a_file_is_not_decoded(photos, tmp_path):
    copy = tmp_path / "copy.jpg"
    copy.write_bytes(photos[1].read_bytes())
    with open_cache(tmp_path / "cache") as cache:
        handler = Lane(tmp_path, cache)
        assert handler.load(photos[1]) == handler.load(copy)
        assert handler.num_decoded == 1


def test_a_lower_limit_of_pixels_rejects_what_is_in_the_cache(photos, tmp_path):
    with open_cache(tmp_path / "cache") as cache:
        Lane(tmp_path, cache).load(photos[1])
    with open_cache(tmp_path / "cache", max_pixels=100) as cache:
        assert Lane(tmp_path, cache, max_pixels=100).load(photos[1]) == "too_many_pixels"


# --- commands -------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path):
    """Its commands need no model."""
    project = Project(tmp_path / "project")
    project.init()
    return project


def turn_on(project, max_size='"100MB"'):
    config = project.folder / "infer.toml"
    text = config.read_text()
    assert "[cache]\n" in text
    config.write_text(text.replace("[cache]\n", f"[cache]\nmax_size = {max_size}\n"))


def fill(project, photos, recipe=RECIPE):
    with open_cache(project.folder / ".infer-cache", recipe) as cache:
        handler = Lane(photos[0].parent, cache, recipe)
        for photo in photos:
            handler.load(photo)


def test_status_of_a_project_without_a_cache_says_how_to_have_one(project):
    folder = str(project.folder / ".infer-cache")
    empty = {"folder": folder, "enabled": False, "bytes": 0, "max_bytes": 0, "recipes": []}
    assert project.infer_json("cache", "status") == empty
    assert project.infer("cache", "status") == (
        f'{folder}: 0 images, 0 bytes on disk; off: [cache] max_size = "10GB" turns it on\n'
    )
    assert not Path(folder).exists()


def test_status_counts_images_by_recipe(project, photos):
    turn_on(project)
    fill(project, photos)
    fill(project, photos[:5], Recipe("stretch", 32))
    status = project.infer_json("cache", "status")
    assert (status["enabled"], status["max_bytes"]) == (True, MAX_SIZE)
    assert 20 * 64 * 64 * 3 < status["bytes"] < MAX_SIZE
    found = [(one["recipe"]["recipe"]["kind"], one["size"], one["images"]) for one in status["recipes"]]
    assert found == [("stretch", 32, 5), ("resize-crop", 64, 20)]
    shown = project.infer("cache", "status")
    assert "resize-crop to 64, resize 72, bicubic" in shown
    assert "at most 100.0 MB" in shown


def test_clearing_says_what_it_removed_and_leaves_nothing(project, photos):
    turn_on(project)
    fill(project, photos)
    on_disk = project.infer_json("cache", "status")["bytes"]
    removed = project.infer_json("cache", "clear")
    assert removed == {"folder": str(project.folder / ".infer-cache"), "files": 1, "images": 20, "bytes": on_disk}
    assert project.infer_json("cache", "status")["recipes"] == []
    assert "removed 0 images, 0 bytes on disk" in project.infer("cache", "clear")


def test_clearing_disturbs_no_process_that_uses_the_cache(project, photos):
    turn_on(project)
    fill(project, photos)
    script = (
        "import sys; from pathlib import Path; from tests.integration.test_cache import *\n"
        "folder, photos = Path(sys.argv[1]), sorted(Path(sys.argv[2]).iterdir())\n"
        "with open_cache(folder / '.infer-cache') as cache:\n"
        "    handler = Lane(photos[0].parent, cache)\n"
        "    while True:\n"
        "        print(json.dumps([handler.load(photo) for photo in photos]), flush=True)\n"
    )
    command = [sys.executable, "-c", script, str(project.folder), str(photos[0].parent)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    try:
        expected = json.loads(running.stdout.readline())
        assert project.infer_json("cache", "clear")["images"] == 20
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert json.loads(running.stdout.readline()) == expected
        assert running.poll() is None
    finally:
        running.kill()
        running.communicate()
    assert project.infer_json("cache", "status")["bytes"] == 0


@pytest.mark.parametrize("value", ['"lots"', '"-5GB"', "-1"])
def test_a_bound_that_is_none_is_a_usage_error(project, value):
    turn_on(project, value)
    project.infer("cache", "status", exit_code=2)
    assert "cache.max_size" in project.errors
