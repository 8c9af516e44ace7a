"""Files that a reader sees whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` at once: whoever opens it finds the old content or the new, with the rights it had.

    A full disk leaves the old one. Raises OSError.
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
    mode = path.stat().st_mode if path.exists() else 0o644  # not its owner's alone: cron may run as someone else
    written.chmod(mode & 0o777)
    written.replace(path)
