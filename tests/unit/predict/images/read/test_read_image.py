import errno
import hashlib
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.base.domain import ROW, FileFacts, ImageRef, Reason
from infer_app.base.locations import NO_MAPPING, PathMapping
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read import local_files
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.local_files import are_gone, hash_files, read_ahead, stat_facts
from infer_app.predict.images.read.read_image import ImageBytes, read_image, refused_among

CONTENT = b"forty-two bytes that stand for an image..."
MAX_BYTES = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    return root


@pytest.fixture
def image(root: Path) -> Path:
    image = root / "image.jpg"
    image.write_bytes(CONTENT)
    return image


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "secret.jpg"
    outside.write_bytes(CONTENT)
    return outside


class NoRows:
    def read(self, image_id: str, max_bytes: int) -> None:
        return None


def limits(*roots: Path, max_bytes: int = MAX_BYTES) -> ReadLimits:
    return ReadLimits(roots, max_bytes)


def read(location: object, *roots: Path) -> bytes:
    return read_image(str(location), limits(*roots)).data


def refusal(location: object, *roots: Path, max_bytes: int = MAX_BYTES) -> BadImage:
    with pytest.raises(BadImage) as caught:
        read_image(str(location), limits(*roots, max_bytes=max_bytes))
    return caught.value


def facts_of(path: Path) -> FileFacts:
    return FileFacts(path.stat().st_size, path.stat().st_mtime)


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


OUTSIDE, NOT_ALLOWED = "outside the allowed roots", Reason.LOCATION_NOT_ALLOWED
REFUSED: list[tuple[str, Reason, str]] = [
    ("{root}/../secret.jpg", NOT_ALLOWED, OUTSIDE),
    ("{root}/../gone.jpg", NOT_ALLOWED, OUTSIDE),  # alike, whether it exists or not
    ("{root}/../../../../../../../../../../etc/passwd", NOT_ALLOWED, OUTSIDE),
    ("file://{root}/%2e%2e/secret.jpg", NOT_ALLOWED, OUTSIDE),
    ("file://{root}/..%2fsecret.jpg", NOT_ALLOWED, OUTSIDE),
    ("{root}/out.jpg", NOT_ALLOWED, OUTSIDE),
    ("{root}/folder/secret.jpg", NOT_ALLOWED, OUTSIDE),
    ("{root}base/image.jpg", NOT_ALLOWED, OUTSIDE),  # a sibling whose name begins like the root
    ("{root}/loop", NOT_ALLOWED, "Too many levels of symbolic links"),
    ("{root}/" + "a" * 300, NOT_ALLOWED, "File name too long"),
    ("{root}/image.jpg\0.png", NOT_ALLOWED, "embedded null byte"),
    ("file://{root}/image.jpg%00.png", NOT_ALLOWED, "embedded null byte"),
    ("{root}/\ud83d.jpg", NOT_ALLOWED, "surrogates not allowed"),
    ("", NOT_ALLOWED, "the row has no location"),
    *((name, NOT_ALLOWED, "not an absolute path") for name in ("image.jpg", "../image.jpg", "~/a", "C:\\a")),
    *((f"{scheme}://h/a.jpg", NOT_ALLOWED, f"scheme '{scheme}'") for scheme in ("http", "s3", "FTP")),
    *((f"file://{host}", NOT_ALLOWED, "") for host in ("host{root}/image.jpg", "[{root}/image.jpg", "", ".{root}")),
    ("{root}/fifo.jpg", Reason.NOT_REGULAR_FILE, "a FIFO"),
    ("{root}/socket.jpg", Reason.NOT_REGULAR_FILE, "a socket"),
    ("{root}/sub", Reason.NOT_REGULAR_FILE, "a directory"),
    ("{root}/gone.jpg", Reason.NOT_FOUND, "No such file or directory"),
    ("{root}/image.jpg/below.jpg", Reason.NOT_FOUND, "Not a directory"),
    ("{root}/empty.jpg", Reason.EMPTY, "0 bytes"),
]


@pytest.fixture
def odd(root: Path, image: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The root, with all that may lie in it and beside it; it is the working folder, too."""
    monkeypatch.chdir(root)
    (root / "out.jpg").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    (root / "loop").symlink_to(root / "loop")
    (root / "sub").mkdir()
    (root / "empty.jpg").touch()
    os.mkfifo(root / "fifo.jpg")
    (root.parent / "database").mkdir()
    (root.parent / "database" / "image.jpg").write_bytes(CONTENT)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jpg")  # the path of a socket must be short
        yield root


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
    assert refused_among(refs, ReadLimits((root,), MAX_BYTES, rows=NoRows())) == []
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


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The real paths of the files that the kernel was asked to fetch."""
    asked: list[str] = []
    fadvise = os.posix_fadvise

    def record(descriptor: int, offset: int, length: int, advice: int) -> None:
        asked.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        assert (offset, length, advice) == (0, MAX_BYTES, os.POSIX_FADV_WILLNEED)
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


def test_reading_ahead_leaves_a_file_system_that_can_not_do_it_alone(
    image: Path, root: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    read_ahead(str(image), limits(root))
    assert read(image, root) == CONTENT


def test_files_are_hashed_whatever_their_size_and_only_those_that_may_be_read(
    root: Path, image: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local_files, "HASHED_AT_ONCE", 10)
    os.mkfifo(root / "fifo")
    named = [image, outside, root / "fifo", root, root / "none"]
    found = list(hash_files(map(str, named), ReadLimits((root,), 1)))
    hashed = replace(facts_of(image), sha256=hashlib.sha256(CONTENT).hexdigest())
    assert [one for one in found if one is not None] == [hashed] + 4 * [FileFacts()]
    assert found.count(None) == 5  # so that a caller sees that it goes on


def test_only_a_file_that_does_not_exist_is_gone(root: Path, image: Path):
    locations = [str(image), str(root / "none"), str(image / "none"), "row:7", "http://a/b", f"file://{root}/none", ""]
    assert list(are_gone(locations, NO_MAPPING)) == [False, True, True, False, False, True, False]


@pytest.mark.parametrize("location", ["/gone/image.jpg", "image.jpg", "http://host/a.jpg", "/a\0b", "/\ud83d.jpg"])
def test_stat_facts_are_empty_where_there_are_none(location: str):
    assert stat_facts(location) == FileFacts()


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
