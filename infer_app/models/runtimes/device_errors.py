"""Detection of exceptions that are caused by the machine's memory or GPU and not by an image."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from infer_app.errors import DeviceLost

# TorchScript and other runtimes raise every error of an operation as a RuntimeError that quotes it.
_NO_MEMORY = re.compile(r"out of memory|can(?:no|')t allocate memory|not enough memory|bad[_ ]alloc", re.IGNORECASE)
_DEVICE_FAILED = re.compile(r"CUDA error: .*")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a retry may succeed with a smaller batch or later; torch's own error is a RuntimeError."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_NO_MEMORY.search(str(error))))


@contextmanager
def device_loss_raised() -> Iterator[None]:
    """Raise DeviceLost for errors after which the device is unusable in this process."""
    try:
        yield
    except RuntimeError as error:
        failure = _DEVICE_FAILED.search(str(error))
        if is_out_of_memory(error) or not (failure or type(error).__name__ == "AcceleratorError"):
            raise
        cause = failure.group() if failure else str(error)
        raise DeviceLost(f"the GPU failed: {cause}", "see `nvidia-smi` and the kernel's log (Xid)") from error
