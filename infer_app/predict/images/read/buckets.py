"""Read objects of S3, Google and Azure by fsspec, with the credentials that those services' own tools find.

fsspec runs an event loop in a thread, which is started with the first file system, so never before a worker is forked.
"""

import errno
import hashlib
import importlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from infer_app.base.domain import FileFacts, Reason
from infer_app.base.errors import StorageUnavailable
from infer_app.base.locations import AllowedPrefix, RemoteAccess, RemoteUrl
from infer_app.predict.images.read.bad_image import BadImage, ImageBytes, Transient
from infer_app.predict.images.read.http import LIMITS

RANGE_NOT_SATISFIABLE = 416  # the answer to a request for the first byte of an empty object


class BucketReader:
    """A reader that keeps one file system for each scheme; any thread may use it."""

    def __init__(self, access: RemoteAccess) -> None:
        self._access = access
        self._opening = threading.Lock()
        self._opened: dict[str, object] = {}

    def read(self, url: RemoteUrl, max_bytes: int, deadline: float) -> ImageBytes:
        """Read an object, without retries. Raises BadImage, or Transient for a failure that may be temporary."""
        if not url.key or url.key.endswith("/"):
            raise BadImage(Reason.NOT_REGULAR_FILE, "a folder")
        try:
            data = self._call(url, "_cat_file", deadline, start=0, end=max_bytes + 1)
        except Exception as error:  # each cloud's library raises its own
            raise _refusal(error) from error
        if not data:
            raise _empty()
        if len(data) > max_bytes:
            raise BadImage(Reason.TOO_LARGE_BYTES, f"more than the {max_bytes:,} bytes that are read")
        return ImageBytes(data, FileFacts(size=len(data), sha256=hashlib.sha256(data).hexdigest()))

    def exists(self, url: RemoteUrl, deadline: float) -> bool:
        """Return whether there is anything below a URL. Raises as `read` does."""
        try:
            return bool(self._call(url, "_info", deadline))
        except Exception as error:
            raise _refusal(error) from error

    def list_folders(self, prefix: AllowedPrefix) -> Iterator[list[tuple[str, int | None]]]:
        """Yield (location, size in bytes) of all objects below a prefix, one list per folder.

        Raises StorageUnavailable.
        """
        filesystem, scheme = self._open(prefix.root.scheme), f"{prefix.root.scheme}://"
        try:
            path, has_nameless = _path(prefix.root), False
            for _, _, found in filesystem.walk(path, detail=True, on_error="raise"):
                has_nameless |= any(info["type"] == "directory" for info in found.values())  # p// below p/
                yield _files(scheme, found)
            if has_nameless:  # which no walk enters
                everything = filesystem.find(path, detail=True)
                yield _files(scheme, {name: info for name, info in everything.items() if "//" in name})
        except Exception as error:
            raise StorageUnavailable(
                f"{prefix} can't be listed: {_refusal(error).detail}",
                "`infer doctor` checks every place in [remote] allow",
            ) from error

    def _call(self, url: RemoteUrl, name: str, deadline: float, **options: int) -> Any:
        from fsspec.asyn import sync

        filesystem = self._open(url.scheme)
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return sync(filesystem.loop, getattr(filesystem, name), _path(url), timeout=left, **options)

    def _open(self, scheme: str) -> Any:
        with self._opening:
            if scheme not in self._opened:
                self._opened[scheme] = _OPEN[scheme](self._access)
            return self._opened[scheme]


def _files(scheme: str, found: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    files = (info for _, info in sorted(found.items()) if not info["name"].endswith("/"))
    return [(f"{scheme}{info['name']}", info.get("size")) for info in files]


def _path(url: RemoteUrl) -> str:
    return f"{url.host}{url.path}".rstrip("/")


def _open_s3(access: RemoteAccess) -> object:
    s3fs = importlib.import_module("s3fs")
    # The retries of s3fs and of botocore would multiply with ours.
    config = {"retries": {"total_max_attempts": 1}, "max_pool_connections": max(10, access.concurrency)}
    filesystem = s3fs.S3FileSystem(config_kwargs=config, use_listings_cache=False, skip_instance_cache=True)
    filesystem.retries = 1
    return filesystem


def _open_google(_: RemoteAccess) -> object:
    core = importlib.import_module("gcsfs.core")  # not the class for zonal buckets, which requests each bucket's kind
    return core.GCSFileSystem(use_listings_cache=False, skip_instance_cache=True)


def _open_azure(_: RemoteAccess) -> object:
    adlfs = importlib.import_module("adlfs")
    return adlfs.AzureBlobFileSystem(use_listings_cache=False, skip_instance_cache=True)


_OPEN: dict[str, Callable[[RemoteAccess], object]] = {
    "s3": _open_s3,
    "gs": _open_google,
    "az": _open_azure,
    "abfs": _open_azure,
}


def _refusal(error: Exception) -> BadImage | Transient:
    """Describe an error without the library's text, which may hold an account, a key's id or a signed URL."""
    if isinstance(error, BadImage | Transient):
        return error
    status = _status(error)
    if status == RANGE_NOT_SATISFIABLE:
        return _empty()
    if isinstance(error, FileNotFoundError):
        return BadImage(Reason.NOT_FOUND, "no such object or bucket")
    if isinstance(error, TimeoutError):
        return BadImage(Reason.READ_TIMEOUT, "read exceeded the time limit")
    name = type(error.__cause__ or error).__name__
    detail = f"{name}, HTTP {status}" if status else name
    if "InvalidObjectState" in name:
        return BadImage(Reason.READ_ERROR, "archived: restore it first")
    is_forbidden = isinstance(error, PermissionError) or status in (401, 403) or str(error).startswith("Forbidden")
    if is_forbidden or "Credential" in name:  # this word is all that an OSError of gcsfs has
        return BadImage(Reason.PERMISSION_DENIED, detail)
    if isinstance(error, OSError) and error.errno == errno.EINVAL:
        return BadImage(Reason.READ_ERROR, detail)
    return Transient(detail, is_limit=status in LIMITS)


def _empty() -> BadImage:
    return BadImage(Reason.EMPTY, "0 bytes", FileFacts(size=0))


def _status(error: Exception) -> int | None:
    """Return the HTTP status: botocore has it in the cause's response, gcsfs as code, Azure as status_code."""
    response = getattr(error.__cause__, "response", None) or {}
    if isinstance(response, dict) and "ResponseMetadata" in response:
        found = response["ResponseMetadata"].get("HTTPStatusCode")
    else:
        found = getattr(error, "code", None) or getattr(error, "status_code", None)
    return found if isinstance(found, int) else None
