"""A cache whose writers are many, are killed, or find the disk full: what it answers is right or nothing."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import FILE_NAME, PixelCache, survey
from infer_app.recipe import Recipe, Size

SIZE = 224
PICTURE = Size(640, 480)
KEY = CacheKey(Recipe("stretch", SIZE), 10**6)
BOUND = 6_000_000  # 29 images
NUMBERS = range(60)

# A process that puts images in random order until it is ended; it says when it has begun.
WRITER = """
import random, sys
from pathlib import Path
from tests.faults.test_cache_faults import BOUND, KEY, NUMBERS, PICTURE, PixelCache, pixels, sha256
with PixelCache.open(Path(sys.argv[1]), BOUND, KEY) as cache:
    print("writing", flush=True)
    while True:
        number = random.choice(NUMBERS)
        cache.put(sha256(number), pixels(number), PICTURE)
"""


@cache
def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (SIZE, SIZE, 3), np.uint8)


def sha256(number: int) -> str:
    return f"{number:02x}" * 32


def find(cache: PixelCache, number: int) -> bool:
    """Whether it is found; then every byte must be right."""
    out = np.empty((SIZE, SIZE, 3), np.uint8)
    if not cache.get(sha256(number), out):
        return False
    assert np.array_equal(out, pixels(number)), f"wrong pixels for image {number}"
    return True


@contextmanager
def writers(folder, count):
    command = [sys.executable, "-c", WRITER, str(folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) for _ in range(count)]
    try:
        for one in started:
            assert one.stdout.readline() == b"writing\n"
        yield started
    finally:
        for one in started:
            one.kill()
            one.communicate()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def test_a_reader_beside_two_writers_finds_no_wrong_byte(folder):
    with PixelCache.open(folder, BOUND, KEY) as cache, writers(folder, 2):
        end = time.monotonic() + 5
        tries = [find(cache, random.choice(NUMBERS)) for _ in iter(lambda: time.monotonic() < end, False)]
        assert sum(tries) > 500
        assert len(tries) - sum(tries) > 100


@pytest.mark.parametrize("kills", [10])
def test_what_killed_writers_leave_is_right_or_missing(folder, seeded, kills):
    hits = 0
    for _ in range(kills):
        with writers(folder, 2) as started:
            time.sleep(seeded.uniform(0, 0.1))
            for one in started:
                one.send_signal(signal.SIGKILL)
        with PixelCache.open(folder, BOUND, KEY) as cache:
            hits += sum(find(cache, number) for number in NUMBERS)
    assert hits > 5 * kills


def test_a_writer_that_is_stopped_holds_nobody_up(folder):
    with PixelCache.open(folder, BOUND, KEY) as cache, writers(folder, 2) as started:
        for _ in range(5):
            for one in started:
                one.send_signal(signal.SIGSTOP)
            start = time.monotonic()
            for number in range(200):
                find(cache, number % len(NUMBERS))
                cache.put(sha256(number % len(NUMBERS)), pixels(number % len(NUMBERS)), PICTURE)
                cache.flush()
            assert time.monotonic() - start < 3
            for one in started:
                one.send_signal(signal.SIGCONT)
            time.sleep(0.05)


def test_a_killed_writer_keeps_no_lock(folder, seeded):
    with PixelCache.open(folder, BOUND, KEY) as cache:
        for number in range(5):
            with writers(folder, 2) as started:
                time.sleep(seeded.uniform(0, 0.1))
                for one in started:
                    one.send_signal(signal.SIGKILL)
            time.sleep(cache._pause_s)
            cache.put(sha256(number), pixels(number), PICTURE)
            cache.flush()
            assert find(cache, number)
        assert survey(folder)[0].images > 0


def test_after_a_kill_the_cache_fills_as_before(folder):
    with writers(folder, 2):
        time.sleep(0.2)
    with PixelCache.open(folder, BOUND, KEY) as cache:
        for number in NUMBERS:
            cache.put(sha256(number), pixels(number), PICTURE)
            assert find(cache, number)
        cache.flush()
        assert sum(find(cache, number) for number in NUMBERS) > 20
        assert (folder / FILE_NAME).stat().st_size <= BOUND


def test_damage_anywhere_is_never_a_wrong_pixel(folder, seeded):
    with PixelCache.open(folder, BOUND, KEY) as cache:
        for number in range(15):
            cache.put(sha256(number), pixels(number), PICTURE)
    path = folder / FILE_NAME
    intact = path.read_bytes()
    found = []
    for _ in range(30):
        content = bytearray(intact)
        start = seeded.randrange(len(content))
        length = seeded.choice((1, 512, 4096, 300_000))
        damage = seeded.choice((bytes(length), seeded.randbytes(length), content[start // 2 : start // 2 + length]))
        content[start : start + length] = damage
        path.write_bytes(content[: len(intact)])
        with PixelCache.open(folder, BOUND, KEY) as cache:
            found.append(sum(find(cache, number) for number in range(15)))
    assert min(found) < 15
    assert sum(found) > 200


def test_a_disk_that_fills_up_ends_the_writing_only(small_disk, caplog):
    with PixelCache.open(small_disk / "cache", 10**9, KEY) as cache:
        for number in range(60):
            cache.put(sha256(number), pixels(number), PICTURE)
        kept = [number for number in range(60) if find(cache, number)]
    disk = os.statvfs(small_disk)
    assert len(kept) > 20
    assert disk.f_bavail > disk.f_blocks // 20  # what is left is for others
    assert [message.partition(" takes ")[2] for message in caplog.messages] == [
        "no new images: the disk is almost full"
    ]


def test_a_disk_without_a_free_byte_ends_the_writing_only(small_disk, caplog, monkeypatch):
    monkeypatch.setattr(
        "infer_app.images.cache.pixel_cache.MIN_FREE_BYTES", -1
    )  # as if another had just taken the rest
    with PixelCache.open(small_disk / "cache", 10**9, KEY) as cache:
        for number in range(80):
            cache.put(sha256(number), pixels(number), PICTURE)
        assert sum(find(cache, number) for number in range(80)) > 20
    assert [message.partition(" takes ")[2] for message in caplog.messages] == [
        "no new images: database or disk is full"
    ]


def test_a_full_disk_at_the_start_means_no_new_images_and_one_warning(small_disk, caplog):
    (small_disk / "others").write_bytes(bytes(7_900_000))
    with PixelCache.open(small_disk / "cache", 10**9, KEY) as cache:
        cache.put(sha256(0), pixels(0), PICTURE)
        cache.flush()
        assert not find(cache, 0)
    assert [message.partition(" takes ")[2] for message in caplog.messages] == [
        "no new images: the disk is almost full"
    ]


@pytest.mark.always
def test_a_limit_on_file_size_ends_the_writing_only(folder, caplog):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, before[1]))
        with PixelCache.open(folder, 10**9, KEY) as cache:
            for number in NUMBERS:
                cache.put(sha256(number), pixels(number), PICTURE)
            kept = sum(find(cache, number) for number in NUMBERS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kept < 13
    assert len(caplog.messages) == 1


def test_a_read_only_folder_means_no_cache_and_one_warning(small_disk, caplog):
    with PixelCache.open(small_disk / "cache", 10**9, KEY):
        pass
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert PixelCache.open(small_disk / "cache", 10**9, KEY) is None
    assert PixelCache.open(small_disk / "other", 10**9, KEY) is None
    assert [message.partition(": ")[2] for message in caplog.messages] == ["Read-only file system"] * 2
