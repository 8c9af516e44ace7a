"""Detection of exceptions that are caused by the GPU and not by an image."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from infer_app.base.errors import DeviceLost, is_out_of_memory

_DEVICE_FAILED = re.compile(r"CUDA error: .*")


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
