"""A file system that stops answering, as a network mount whose server is gone: each look into it hangs in the kernel.

Not even SIGKILL ends a process that waits for it.
"""

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

FUSE_INIT = 26
MNT_FORCE, MNT_DETACH = 1, 2
HEADER = struct.Struct("<IIQ")  # length, operation, number of the request
ANSWER = struct.Struct("<IiQ IIIIHHIIHHIIIIIIII")  # length, error, number; fuse_init_out of version 7.31


@contextmanager
def stalled(folder: Path, is_dead: bool = False) -> Iterator[None]:
    """Mount it over the folder, whose files are back afterwards. Skips where nothing may be mounted.

    Of one that is dead the server is gone: every look into it fails at once.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"needs FUSE: {error.strerror}")
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"infer-test", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(device)
        pytest.skip(f"needs to mount: {os.strerror(ctypes.get_errno())}")
    if is_dead:
        os.close(device)
    else:
        threading.Thread(target=_answer_nothing, args=(device,), daemon=True).start()
    try:
        yield
    finally:
        libc.umount2(os.fsencode(folder), MNT_FORCE)  # fails every request, so that who waits goes on
        libc.umount2(os.fsencode(folder), MNT_DETACH)
        if not is_dead:
            os.close(device)


def _answer_nothing(device: int) -> None:
    with suppress(OSError):  # the end of the mount
        while True:
            _, operation, number = HEADER.unpack_from(os.read(device, 1 << 17))
            if operation == FUSE_INIT:
                answer = (7, 31, 0, 0, 16, 12, 1 << 16, 1, 32, 0, *[0] * 8)
                os.write(device, ANSWER.pack(ANSWER.size, 0, number, *answer))
