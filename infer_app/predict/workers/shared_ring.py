"""A ring of slots for pixels in shared memory: loaders fill them, and the device process copies them.

The owner of a slot, step by step:

    free ─ a task ─► a loader fills it ─ its result ─► the supervisor ─ a task ─► the device copies it ─ Copied ─► free

A slot is passed with a message, and the receiver of the last message owns it: there is no lock and no flag. A loader
never waits for a slot, because tasks are given only together with one. Without a free slot there is no new task, which
bounds the memory and makes loaders wait for a slow device. The slots of a dead process are released after its death.
"""

from __future__ import annotations

import mmap
import os
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt

from infer_app.base.size import Size


class Ring:
    """Shared memory of `num_slots` slots, each (batch_size, height, width, 3) uint8, without a file in /dev/shm.

    The kernel frees it when the last process that has it open ends. It can be pickled into a process that is being
    started. Only the process that made it knows which slots are free.
    """

    def __init__(self, num_slots: int, batch_size: int, size: Size) -> None:
        shape = (num_slots, batch_size, *size.shape)
        fd = os.memfd_create("infer-ring", os.MFD_CLOEXEC)
        os.truncate(fd, int(np.prod(shape)))
        self._open(fd, shape)
        self._free = list(range(num_slots))

    @property
    def batch_size(self) -> int:
        """Return the number of images in a slot."""
        return self._shape[1]

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """Return all slots, (num_slots, batch_size, height, width, 3) uint8, aligned to a page."""
        return self._pixels

    @property
    def num_free(self) -> int:
        return len(self._free)

    def acquire(self) -> int:
        """Take a free slot, which the caller then owns. Raises IndexError if all are in use."""
        return self._free.pop()

    def release(self, slot: int) -> None:
        assert slot not in self._free, f"slot {slot} was released twice"
        self._free.append(slot)

    def close(self) -> None:
        """Close the ring in this process. Arrays that refer to it keep the memory until they are deleted."""
        os.close(self._fd)
        del self._pixels

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self, fd: int, shape: tuple[int, ...]) -> None:
        self._fd, self._shape = fd, shape
        self._pixels = np.frombuffer(mmap.mmap(fd, 0), np.uint8).reshape(shape)

    def __getstate__(self) -> dict[str, object]:
        return {"fd": DupFd(self._fd), "shape": self._shape}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(state["fd"].detach(), state["shape"])
        self._free = []
