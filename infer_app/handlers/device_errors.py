"""Tell exceptions that are about the machine, its memory or its GPU, from those that are about an image."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from infer_app.errors import DeviceLost

# TorchScript passes on every error of an operation as a RuntimeError that quotes it, and so do other runtimes.
_NO_MEMORY = re.compile(r"out of memory|can(?:no|')t allocate memory|not enough memory|bad[_ ]alloc", re.IGNORECASE)
_DEVICE_FAILED = re.compile(r"CUDA error: .*")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the same may succeed with a smaller batch, or later."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error)))


@contextmanager
def device_loss_raised() -> Iterator[None]:
    """Raise DeviceLost for an error after which nothing works on the device any more in this process."""
    try:
        yield
    except RuntimeError as error:
        failure = _DEVICE_FAILED.search(str(error))
        if is_out_of_memory(error) or not (failure or isinstance(error, torch.AcceleratorError)):
            raise
        what = failure.group() if failure else str(error)
        raise DeviceLost(f"the GPU failed: {what}", "`nvidia-smi` and the kernel's log (Xid) say more") from error
