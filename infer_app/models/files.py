"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` at once: whoever opens it finds the old content or the new. Raises OSError."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".new-", delete=False) as new:
        new.write(data)
        new.flush()
        os.fsync(new.fileno())
    written = Path(new.name)
    written.chmod(0o644)  # a temporary file is its owner's alone; cron may run as someone else
    written.replace(path)
