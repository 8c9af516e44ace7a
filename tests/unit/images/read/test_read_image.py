import errno
import hashlib
import os
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.domain import ROW, FileFacts, ImageRef, Reason
from infer_app.images.read import local_files
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.local_files import ReadLimits, are_gone, hash_files, read_ahead, stat_all, stat_facts
from infer_app.images.read.read_image import ImageBytes, read_image, refused_among
from infer_app.locations import NO_MAPPING, PathMapping

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


def reason(location: object, *roots: Path) -> Reason:
    return refusal(location, *roots).reason


def facts_of(path: Path) -> FileFacts:
    return FileFacts(path.stat().st_size, path.stat().st_mtime)


def test_bytes_come_with_the_facts_of_their_file(image: Path, root: Path):
    os.utime(image, (1_790_000_000.25, 1_790_000_000.25))
    facts = FileFacts(size=42, modified=1_790_000_000.25, sha256=hashlib.sha256(CONTENT).hexdigest())
    assert read_image(str(image), limits(root)) == ImageBytes(CONTENT, facts, image.stat().st_mode & 0o777)


def test_a_file_of_several_megabytes_is_whole(root: Path):
    content = os.urandom(5_000_000)
    (root / "large.jpg").write_bytes(content)
    assert read_image(str(root / "large.jpg"), limits(root, max_bytes=10**7)).data == content


@pytest.mark.parametrize("host", ["", "localhost"])
def test_a_file_uri_is_its_path_with_the_escapes_undone(root: Path, host: str):
    (root / "a b%é.jpg").write_bytes(CONTENT)
    assert read(f"file://{host}{root}/a%20b%25%C3%A9.jpg", root) == CONTENT


def test_a_plain_path_is_taken_literally(root: Path):
    (root / "a%20b?c#d.jpg").write_bytes(CONTENT)
    assert read(root / "a%20b?c#d.jpg", root) == CONTENT


def test_a_file_name_that_is_no_utf8_is_read(root: Path):
    raw = os.fsencode(root) + b"/caf\xe9.jpg"
    with open(raw, "wb") as file:  # noqa: PTH123 - the name is bytes
        file.write(CONTENT)
    assert read(os.fsdecode(raw), root) == CONTENT
    assert read(f"file://{root}/caf%E9.jpg", root) == CONTENT


def test_any_of_several_roots_allows(tmp_path: Path, root: Path, image: Path):
    other = tmp_path / "other"
    other.mkdir()
    assert read(image, other, root) == read(image, root, other) == CONTENT


def test_a_root_may_end_in_a_slash_or_be_the_whole_disk(image: Path, root: Path):
    assert read(image, Path(f"{root}/")) == read(image, Path("/")) == CONTENT


def test_a_root_may_be_a_symlink(tmp_path: Path, image: Path, root: Path):
    link = tmp_path / "link"
    link.symlink_to(root)
    assert read(link / "image.jpg", link) == read(image, link) == read(link / "image.jpg", root) == CONTENT


def test_a_symlink_that_stays_inside_is_followed(image: Path, root: Path):
    (root / "link.jpg").symlink_to(image)
    assert read_image(str(root / "link.jpg"), limits(root)) == read_image(str(image), limits(root))


def test_dots_do_not_lead_out_of_the_root(root: Path, outside: Path):
    assert reason(f"{root}/../secret.jpg", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(f"{root}/../../../../../../../../../../etc/passwd", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(f"file://{root}/%2e%2e/secret.jpg", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(f"file://{root}/..%2fsecret.jpg", root) is Reason.LOCATION_NOT_ALLOWED


def test_a_symlink_does_not_lead_out_of_the_root(root: Path, outside: Path):
    (root / "link.jpg").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    assert reason(root / "link.jpg", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(root / "folder" / "secret.jpg", root) is Reason.LOCATION_NOT_ALLOWED


def test_a_sibling_whose_name_begins_like_the_root_is_outside(tmp_path: Path, root: Path):
    sibling = tmp_path / "database"
    sibling.mkdir()
    (sibling / "image.jpg").write_bytes(CONTENT)
    assert reason(sibling / "image.jpg", root) is Reason.LOCATION_NOT_ALLOWED


def test_without_roots_nothing_is_read(image: Path):
    assert reason(image) is Reason.LOCATION_NOT_ALLOWED


def test_what_lies_outside_is_refused_alike_whether_it_exists_or_not(root: Path, outside: Path):
    there, gone = refusal(outside, root), refusal(outside.with_name("gone.jpg"), root)
    assert there.args == gone.args == (Reason.LOCATION_NOT_ALLOWED, "outside the allowed roots", None)


@pytest.mark.parametrize("location", ["image.jpg", "./image.jpg", "../image.jpg", "~/image.jpg", "C:\\image.jpg"])
def test_a_relative_path_is_refused(image: Path, root: Path, monkeypatch: pytest.MonkeyPatch, location: str):
    monkeypatch.chdir(root)
    assert refusal(location, root).args == (Reason.LOCATION_NOT_ALLOWED, "not an absolute path", None)


def test_locations_are_judged_without_reading_as_reading_judges_them(image: Path, root: Path, outside: Path):
    (root / "link.jpg").symlink_to(outside)
    locations = [image, root / "gone.jpg", root / "link.jpg", outside, f"file://{image}", f"{root}/../secret.jpg", ""]
    locations += ["image.jpg", "s3://b/a.jpg", "ftp://host/a.jpg", "https://user@host/a.jpg", f"{root}/a\0.jpg"]
    refs = [ImageRef(str(number), str(location)) for number, location in enumerate(locations)]
    refused = []
    for ref in refs:
        try:
            read_image(ref.location, limits(root))
        except BadImage as bad:
            refused += [(ref, bad.reason, bad.detail)] if bad.reason is Reason.LOCATION_NOT_ALLOWED else []
    assert [(one.ref, one.reason, one.detail) for one in refused_among(refs, limits(root))] == refused
    assert len(refused) == len(refs) - 3


def test_an_image_in_a_column_has_an_allowed_location(root: Path):
    refs = [ImageRef("7", f"{ROW}7")]
    assert refused_among(refs, ReadLimits((root,), MAX_BYTES, rows=NoRows())) == []
    assert len(refused_among(refs, limits(root))) == 1


def test_no_location_is_refused_as_such(root: Path):
    assert refusal("", root).args == (Reason.LOCATION_NOT_ALLOWED, "the row has no location", None)


@pytest.mark.parametrize("location", ["http://host/a.jpg", "https://host/a.jpg", "s3://b/a.jpg", "FTP://host/a.jpg"])
def test_another_scheme_is_refused_by_name(root: Path, location: str):
    refused = refusal(location, root)
    assert refused.reason is Reason.LOCATION_NOT_ALLOWED
    assert repr(location.split(":")[0]) in refused.detail


@pytest.mark.parametrize("uri", ["file://host{}", "file://[{}", "file://", "file://.{}"])
def test_a_file_uri_must_name_a_path_on_this_machine(image: Path, root: Path, uri: str):
    assert reason(uri.format(image), root) is Reason.LOCATION_NOT_ALLOWED


def test_a_nul_byte_is_refused(image: Path, root: Path):
    assert reason(f"{image}\0.png", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(f"file://{image}%00.png", root) is Reason.LOCATION_NOT_ALLOWED


def test_characters_that_no_file_name_has_are_refused(root: Path):
    assert reason(f"{root}/\ud83d.jpg", root) is Reason.LOCATION_NOT_ALLOWED


def test_a_loop_of_symlinks_and_an_endless_name_are_refused(root: Path):
    (root / "loop").symlink_to(root / "loop")
    assert reason(root / "loop", root) is Reason.LOCATION_NOT_ALLOWED
    assert reason(root / ("a" * 300), root) is Reason.LOCATION_NOT_ALLOWED


@pytest.mark.timeout(5)
def test_a_fifo_is_refused_without_waiting_for_its_writer(root: Path):
    os.mkfifo(root / "fifo.jpg")
    refused = refusal(root / "fifo.jpg", root)
    assert (refused.reason, refused.detail) == (Reason.NOT_REGULAR_FILE, "a FIFO")


@pytest.mark.timeout(5)
def test_an_endless_device_is_refused():
    refused = refusal("/dev/zero", Path("/dev"))
    assert (refused.reason, refused.detail) == (Reason.NOT_REGULAR_FILE, "a character device")


def test_a_directory_is_refused(root: Path):
    refused = refusal(root / "..", root.parent.parent)
    assert (refused.reason, refused.detail) == (Reason.NOT_REGULAR_FILE, "a directory")


def test_a_socket_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jpg")
        refused = refusal(root / "socket.jpg", root)
    assert (refused.reason, refused.detail) == (Reason.NOT_REGULAR_FILE, "a socket")


def test_a_missing_file_is_not_found_and_has_no_facts(image: Path, root: Path):
    assert refusal(root / "gone.jpg", root).args == (Reason.NOT_FOUND, "No such file or directory", FileFacts())
    assert refusal(image / "below.jpg", root).args == (Reason.NOT_FOUND, "Not a directory", FileFacts())


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user who is not root")
def test_a_file_without_permission_keeps_its_facts(image: Path, root: Path):
    image.chmod(0)
    assert refusal(image, root).args == (Reason.PERMISSION_DENIED, "Permission denied", facts_of(image))


def test_an_empty_file_is_refused_with_its_facts(image: Path, root: Path):
    image.write_bytes(b"")
    assert refusal(image, root).args == (Reason.EMPTY, "0 bytes", facts_of(image))


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
        try:
            read(location, root)
        except BadImage:
            continue
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


def test_reading_ahead_touches_nothing_that_is_not_allowed(root: Path, outside: Path, advised: list[str]):
    (root / "link.jpg").symlink_to(outside)
    opened = outside.stat().st_atime_ns
    for location in (outside, root / "link.jpg", f"{root}/../secret.jpg", f"file://{root}/%2e%2e/secret.jpg"):
        read_ahead(str(location), limits(root))
    read_ahead(str(outside), limits())
    assert (advised, outside.stat().st_atime_ns) == ([], opened)


@pytest.mark.timeout(5)
def test_reading_ahead_opens_neither_fifo_nor_folder_nor_device(root: Path, advised: list[str]):
    os.mkfifo(root / "fifo.jpg")
    for location in (root / "fifo.jpg", root / "..", "/dev/zero"):
        read_ahead(str(location), limits(Path("/")))
    assert advised == []


@pytest.mark.parametrize(
    "location",
    ["", "image.jpg", "/gone/image.jpg", "http://host/a.jpg", "/a\0b", "/\ud83d.jpg", "file://[x", "/" * 5000],
)
def test_reading_ahead_never_raises(root: Path, advised: list[str], location: str):
    read_ahead(location, limits(Path("/")))
    assert advised == []


def test_reading_ahead_leaves_a_file_system_that_can_not_do_it_alone(
    image: Path, root: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    read_ahead(str(image), limits(root))
    assert read(image, root) == CONTENT


def test_reading_ahead_keeps_no_descriptor(image: Path, root: Path, outside: Path):
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for location in (image, outside, root, root / "gone.jpg"):
        read_ahead(str(location), limits(root))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_stat_facts_are_size_and_time_without_a_checksum(image: Path):
    assert stat_facts(str(image)) == stat_facts(f"file://{image}") == facts_of(image)


def test_files_are_hashed_whatever_their_size_and_only_those_that_may_be_read(
    root: Path, image: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(local_files, "_HASHED_AT_ONCE", 10)
    os.mkfifo(root / "fifo")
    named = [image, outside, root / "fifo", root, root / "none"]
    found = list(hash_files(map(str, named), ReadLimits((root,), 1)))
    hashed = replace(facts_of(image), sha256=hashlib.sha256(CONTENT).hexdigest())
    assert [one for one in found if one is not None] == [hashed] + 4 * [FileFacts()]
    assert found.count(None) == 5  # so that a caller sees that it goes on


def test_only_a_file_that_does_not_exist_is_gone(root: Path, image: Path):
    locations = [str(image), str(root / "none"), str(image / "none"), "row:7", "http://a/b", f"file://{root}/none", ""]
    assert list(are_gone(locations, NO_MAPPING)) == [False, True, True, False, False, True, False]


def test_files_are_looked_at_one_by_one_so_that_a_caller_sees_that_it_goes_on(root: Path, image: Path):
    other = root / "other.jpg"
    other.write_bytes(CONTENT)
    gone, facts = (look_at([str(image), str(other)], NO_MAPPING) for look_at in (are_gone, stat_all))
    assert (next(gone), next(facts)) == (False, facts_of(image))
    other.unlink()
    assert (list(gone), list(facts)) == ([True], [FileFacts()])


@pytest.mark.parametrize("location", ["/gone/image.jpg", "image.jpg", "http://host/a.jpg", "/a\0b", "/\ud83d.jpg"])
def test_stat_facts_are_empty_where_there_are_none(location: str):
    assert stat_facts(location) == FileFacts()


def mapped(root: Path) -> ReadLimits:
    return ReadLimits((root,), MAX_BYTES, path_map=PathMapping.of({"/srv/photos": str(root)}))


@pytest.mark.parametrize("location", ["/srv/photos/image.jpg", "file:///srv/photos/im%61ge.jpg"])
def test_what_is_recorded_elsewhere_is_read_here(root: Path, image: Path, location: str):
    assert read_image(location, mapped(root)).data == CONTENT
    assert stat_facts(location, mapped(root).path_map) == facts_of(image)


@pytest.mark.parametrize("inner", ["../secret.jpg", "link.jpg", "../data/../secret.jpg"])
def test_a_mapped_path_stays_under_the_roots(root: Path, outside: Path, inner: str):
    (root / "link.jpg").symlink_to(outside)
    with pytest.raises(BadImage) as caught:
        read_image(f"/srv/photos/{inner}", mapped(root))
    assert caught.value.args == (Reason.LOCATION_NOT_ALLOWED, "outside the allowed roots", None)


def test_roots_are_those_of_this_machine(root: Path, image: Path):
    limits = ReadLimits((Path("/srv/photos"),), MAX_BYTES, path_map=PathMapping.of({"/srv/photos": str(root)}))
    with pytest.raises(BadImage) as caught:
        read_image("/srv/photos/image.jpg", limits)
    assert caught.value.reason is Reason.LOCATION_NOT_ALLOWED


def test_what_is_known_of_a_refused_file_is_that_of_the_mapped_one(root: Path):
    (root / "image.jpg").write_bytes(CONTENT * 1000)
    with pytest.raises(BadImage) as caught:
        read_image("/srv/photos/image.jpg", mapped(root))
    assert caught.value.facts == facts_of(root / "image.jpg")
