"""What programs leave behind in /dev/shm."""

from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")


def shared_memory() -> set[str]:
    """Names there that no living process has mapped: what others of this machine work with is not left behind.

    Without those of PostgreSQL, whose servers are killed in tests too.
    """
    held: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            held |= {
                line.rsplit("/", 1)[1] for line in (process / "maps").read_text().splitlines() if str(FOLDER) in line
            }
    return {path.name for path in FOLDER.iterdir() if not path.name.startswith("PostgreSQL.")} - held
