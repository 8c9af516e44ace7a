"""Files that are looked at, hashed or read ahead."""

import errno
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.locations import NO_MAPPING
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.local_files import HASHED_AT_ONCE, are_gone, hash_files, read_ahead, stat_facts
from tests.unit.predict.images.read.conftest import CONTENT, MAX_BYTES, REFUSED, facts_of, limits, read, refusal


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The real paths of the files that the kernel was asked to fetch, which one file system refuses."""
    asked: list[str] = []
    fadvise = os.posix_fadvise

    def record(descriptor: int, offset: int, length: int, advice: int) -> None:
        asked.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        assert (offset, length, advice) == (0, MAX_BYTES, os.POSIX_FADV_WILLNEED)
        if "refusing" in asked[-1]:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        fadvise(descriptor, offset, length, advice)

    monkeypatch.setattr(os, "posix_fadvise", record)
    return asked


def test_reading_ahead_asks_for_the_file_that_will_be_read(image: Path, root: Path, advised: list[str]):
    (root / "link.jpg").symlink_to(image)
    for location in (image, f"file://{image}", root / "link.jpg"):
        read_ahead(str(location), limits(root))
    assert advised == [str(image)] * 3


@pytest.mark.timeout(20)
def test_reading_ahead_touches_nothing_that_is_not_allowed_or_no_file_and_never_raises(
    odd: Path, outside: Path, advised: list[str]
):
    opened = outside.stat().st_atime_ns
    for location, _, _ in REFUSED:
        if "empty" not in location:
            read_ahead(location.format(root=odd), limits(odd))
    read_ahead(str(outside), limits())
    assert refusal("/dev/zero", Path("/dev")).reason is Reason.NOT_REGULAR_FILE
    read_ahead("/dev/zero", limits(Path("/")))
    assert (advised, outside.stat().st_atime_ns) == ([], opened)


def test_reading_ahead_leaves_a_file_system_that_can_not_do_it_alone(image: Path, root: Path, advised: list[str]):
    image = image.rename(root / "refusing.jpg")
    read_ahead(str(image), limits(root))
    assert (advised, read(image, root)) == ([str(image)], CONTENT)


def test_files_are_hashed_whatever_their_size_and_only_those_that_may_be_read(root: Path, image: Path, outside: Path):
    content = bytes(HASHED_AT_ONCE) + CONTENT
    image.write_bytes(content)
    os.mkfifo(root / "fifo")
    named = [image, outside, root / "fifo", root, root / "none"]
    found = list(hash_files(map(str, named), ReadLimits((root,), 1)))
    hashed = replace(facts_of(image), sha256=hashlib.sha256(content).hexdigest())
    assert [one for one in found if one is not None] == [hashed] + 4 * [FileFacts()]
    assert found.count(None) == 2  # so that a caller sees that it goes on


def test_only_a_file_that_does_not_exist_is_gone(root: Path, image: Path):
    locations = [str(image), str(root / "none"), str(image / "none"), "row:7", "http://a/b", f"file://{root}/none", ""]
    assert list(are_gone(locations, NO_MAPPING)) == [False, True, True, False, False, True, False]


@pytest.mark.parametrize("location", ["/gone/image.jpg", "image.jpg", "http://host/a.jpg", "/a\0b", "/\ud83d.jpg"])
def test_stat_facts_are_empty_where_there_are_none(location: str):
    assert stat_facts(location) == FileFacts()
