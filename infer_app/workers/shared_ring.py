"""Slots of pixels in memory that the processes of a run share: loaders fill them, a device copies out of them.

Who owns a slot, and who waits for whom:

    free ─ a task ─► a loader fills it ─ its result ─► the supervisor ─ a task ─► the device copies it ─ Copied ─► free

A slot travels with a message, and whoever has the last message of it owns it: there is no lock and no flag. A loader
never waits for a slot, since a task without one isn't given; so no free slot means no new task, which bounds the memory
and makes loaders wait for a slow device. The slots of a process that died are free again once it is dead.
"""

from __future__ import annotations

import mmap
import os
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt


class Ring:
    """`num_slots` times (batch_size, size, size, 3) uint8 in anonymous memory: no file, no name, no /dev/shm.

    It ends with the last process that has it open, however that ends. Picklable into a process that is being started;
    which slots are free is known only where it was made.
    """

    def __init__(self, num_slots: int, batch_size: int, size: int) -> None:
        shape = (num_slots, batch_size, size, size, 3)
        fd = os.memfd_create("infer-ring", os.MFD_CLOEXEC)
        os.truncate(fd, int(np.prod(shape)))
        self._open(fd, shape)
        self._free = list(range(num_slots))

    @property
    def batch_size(self) -> int:
        """Images of a slot."""
        return self._shape[1]

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        """All slots, (num_slots, batch_size, size, size, 3) uint8, from the start of a page on."""
        return self._pixels

    @property
    def num_free(self) -> int:
        return len(self._free)

    def acquire(self) -> int:
        """A free slot, now the caller's. Raises IndexError where all are in use."""
        return self._free.pop()

    def release(self, slot: int) -> None:
        assert slot not in self._free, f"slot {slot} was given back twice"
        self._free.append(slot)

    def close(self) -> None:
        """This process's part of it. Arrays that were handed out keep their memory until they are gone."""
        os.close(self._fd)
        del self._pixels

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self, fd: int, shape: tuple[int, ...]) -> None:
        self._fd, self._shape = fd, shape
        self._pixels = np.frombuffer(mmap.mmap(fd, 0), np.uint8).reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {"fd": DupFd(self._fd), "shape": self._shape}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(state["fd"].detach(), state["shape"])
        self._free = []
