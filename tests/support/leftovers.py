"""What programs leave behind in /dev/shm."""

from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
OTHERS = ("PostgreSQL.", "faketime_", "sem.faketime_")


def shared_memory() -> set[str]:
    """Names there that no living process has mapped: what others of this machine work with is not left behind.

    Without those of PostgreSQL and of faketime, whose processes are killed in tests too, and without folders.
    """
    held: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            held |= {
                line.rsplit("/", 1)[1] for line in (process / "maps").read_text().splitlines() if str(FOLDER) in line
            }
    return {path.name for path in FOLDER.iterdir() if path.is_file() and not path.name.startswith(OTHERS)} - held
