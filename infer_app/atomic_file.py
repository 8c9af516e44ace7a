"""Replace a file at once: a reader sees the old content or the new one, never a part."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Replace the content of `path` in one step and keep its permissions; a new file gets 0644.

    Raises OSError, for example when the disk is full, and leaves the old content as it was.
    """
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".new-", delete=False) as new:
        written = Path(new.name)
        try:
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        except OSError:
            written.unlink()
            raise
    mode = path.stat().st_mode if path.exists() else 0o644  # readable by others: cron may run as another user
    written.chmod(mode & 0o777)
    written.replace(path)
