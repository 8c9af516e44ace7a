"""Files and links that may be read, and those that may not."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image
from tests.support import refusals

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


def limits(*roots: Path, max_bytes: int = MAX_BYTES) -> ReadLimits:
    return ReadLimits(roots, max_bytes)


def facts_of(path: Path) -> FileFacts:
    return FileFacts(path.stat().st_size, path.stat().st_mtime)


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


def read(location: object, *roots: Path) -> bytes:
    return read_image(str(location), limits(*roots)).data


def refusal(location: object, *roots: Path, max_bytes: int = MAX_BYTES) -> BadImage:
    return refusals.refusal(read_image, str(location), limits(*roots, max_bytes=max_bytes))
