import hashlib
import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from infer_app.base.domain import ROW, FileFacts, ImageRef, Reason
from infer_app.base.locations import PathMapping
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.local_files import read_ahead, stat_facts
from infer_app.predict.images.read.read_image import ImageBytes, read_image, refused_among
from tests.unit.predict.images.read.conftest import (
    CONTENT,
    MAX_BYTES,
    NOT_ALLOWED,
    OUTSIDE,
    REFUSED,
    facts_of,
    limits,
    read,
    refusal,
)


def test_bytes_come_with_the_facts_of_their_file(image: Path, root: Path):
    os.utime(image, (1_790_000_000.25, 1_790_000_000.25))
    facts = FileFacts(size=42, modified=1_790_000_000.25, sha256=hashlib.sha256(CONTENT).hexdigest())
    assert read_image(str(image), limits(root)) == ImageBytes(CONTENT, facts, image.stat().st_mode & 0o777)


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("a b%é.jpg", "file://{}/a%20b%25%C3%A9.jpg"),
        ("a b%é.jpg", "file://localhost{}/a%20b%25%C3%A9.jpg"),
        ("a%20b?c#d.jpg", "{}/a%20b?c#d.jpg"),  # a plain path is taken literally
        ("caf\udce9.jpg", "{}/caf\udce9.jpg"),  # a name that is no UTF-8
        ("caf\udce9.jpg", "file://{}/caf%E9.jpg"),
    ],
)
def test_a_uri_is_its_path_with_the_escapes_undone(root: Path, name: str, location: str):
    (root / name).write_bytes(CONTENT)
    assert read(location.format(root), root) == CONTENT


def test_a_root_may_be_one_of_several_a_symlink_or_the_whole_disk(tmp_path: Path, image: Path, root: Path):
    other, link = tmp_path / "other", tmp_path / "link"
    other.mkdir()
    link.symlink_to(root)
    (root / "link.jpg").symlink_to(image)
    for roots in ((other, root), (root, other), (Path(f"{root}/"),), (Path("/"),), (link,)):
        assert read(image, *roots) == read(root / "link.jpg", *roots) == read(link / "image.jpg", *roots) == CONTENT


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("location", "reason", "detail"), REFUSED)
def test_what_may_not_or_can_not_be_read_is_refused(odd: Path, location: str, reason: Reason, detail: str):
    """Without waiting for the writer of a FIFO."""
    refused = refusal(location.format(root=odd), odd)
    assert (refused.reason, detail in refused.detail) == (reason, True), refused.detail
    facts = {Reason.EMPTY: FileFacts(0, (odd / "empty.jpg").stat().st_mtime), Reason.NOT_FOUND: FileFacts()}
    assert refused.facts == facts.get(reason, refused.facts)
    assert refusal(location.format(root=odd)).reason is NOT_ALLOWED  # without roots nothing is read


def test_locations_are_judged_without_reading_as_reading_judges_them(odd: Path):
    refs = [ImageRef(str(number), one[0].format(root=odd)) for number, one in enumerate(REFUSED)]
    refs.append(ImageRef("good", str(odd / "image.jpg")))
    refused = [one for one, (_, reason, _) in zip(refs, REFUSED, strict=False) if reason is NOT_ALLOWED]
    refused = [one for one in refused if "loop" not in one.location and len(one.location) < 300]  # only opening tells
    found = refused_among(refs, limits(odd))
    assert [(one.ref, one.detail) for one in found] == [(one, refusal(one.location, odd).detail) for one in refused]


def test_an_image_in_a_column_has_an_allowed_location(root: Path):
    refs = [ImageRef("7", f"{ROW}7")]
    assert refused_among(refs, ReadLimits((root,), MAX_BYTES, rows=SimpleNamespace())) == []
    assert len(refused_among(refs, limits(root))) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is not root")
def test_a_file_without_permission_keeps_its_facts(image: Path, root: Path):
    image.chmod(0)
    assert refusal(image, root).args == (Reason.PERMISSION_DENIED, "Permission denied", facts_of(image))


def test_a_file_of_exactly_the_cap_is_read_and_one_byte_more_is_not(image: Path, root: Path):
    assert read_image(str(image), limits(root, max_bytes=42)).data == CONTENT
    refused = refusal(image, root, max_bytes=41)
    assert refused.args == (Reason.TOO_LARGE_BYTES, "42 bytes, at most 41 are read", facts_of(image))


def test_fifty_gigabytes_are_refused_unread(root: Path):
    with (root / "sparse.jpg").open("wb") as file:
        file.truncate(50 * 10**9)
    started = time.process_time()
    refused = refusal(root / "sparse.jpg", root)
    assert time.process_time() - started < 2  # ten to read them
    assert (refused.reason, refused.facts) == (Reason.TOO_LARGE_BYTES, facts_of(root / "sparse.jpg"))


def test_no_descriptor_stays_open(image: Path, root: Path, outside: Path):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counts, like the call it watches
    for location in (image, outside, root, root / "gone.jpg"):
        read_ahead(str(location), limits(root))
        with suppress(BadImage):
            read(location, root)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def mapped(root: Path) -> ReadLimits:
    return ReadLimits((root,), MAX_BYTES, path_map=PathMapping.of({"/srv/photos": str(root)}))


@pytest.mark.parametrize("location", ["/srv/photos/image.jpg", "file:///srv/photos/im%61ge.jpg"])
def test_what_is_recorded_elsewhere_is_read_here(root: Path, image: Path, location: str):
    assert read_image(location, mapped(root)).data == CONTENT
    assert stat_facts(location, mapped(root).path_map) == facts_of(image) == stat_facts(f"file://{image}")
    with pytest.raises(BadImage, match=OUTSIDE):  # roots are those of this machine
        read_image(location, replace(mapped(root), roots=(Path("/srv/photos"),)))
    with pytest.raises(BadImage, match="at most 41 are read") as caught:
        read_image(location, replace(mapped(root), max_bytes=41))
    assert caught.value.facts == facts_of(image)


@pytest.mark.parametrize("inner", ["../secret.jpg", "out.jpg", "../data/../secret.jpg"])
def test_a_mapped_path_stays_under_the_roots(odd: Path, inner: str):
    with pytest.raises(BadImage, match=OUTSIDE):
        read_image(f"/srv/photos/{inner}", mapped(odd))


@pytest.mark.parametrize(("recorded", "there"), [("cam1/IMG_1.JPG", "cam1/IMG_1.jpg"), ("CAM1/a.jpg", "cam1/a.jpg")])
def test_a_name_that_is_there_with_other_capitals_is_told(tmp_path, recorded, there):
    (tmp_path / there).parent.mkdir()
    (tmp_path / there).write_bytes(b"1")
    bad = refusal(tmp_path / recorded, tmp_path)
    name = next(ours for ours, given in zip(there.split("/"), recorded.split("/"), strict=True) if ours != given)
    assert bad.reason is Reason.NOT_FOUND
    assert bad.detail.endswith(f"; it is there as {name}, with other capitals")
