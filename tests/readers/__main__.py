"""Export a project in every format, and let the programs of the page read it: `make readers`.

Every reader has an environment of its own below build/readers, which `make clean` deletes. Names of readers, as in
tests/readers/programs, choose some.
"""

import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.networks.__main__ import make_environment, run
from tests.networks.answers import load_program
from tests.readers.project import make_exports
from tests.readers.rows import PROGRAMS, ROOT, Row, page_rows

BUILD = ROOT / "build" / "readers"
AT_ONCE = 2  # an environment is made on one core


def main(names: list[str]) -> int:
    begin, exports = time.monotonic(), BUILD / "exports"
    make_exports(exports)
    print(f"exports made in {time.monotonic() - begin:.0f} s", flush=True)
    rows = [row for row in page_rows() if not names or row.name in names]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        read = list(pool.map(lambda row: is_read(row, exports), rows))
    failed = [row.name for row, is_same in zip(rows, read, strict=True) if not is_same]
    print(f"not read, or not the same: {', '.join(failed)}" if failed else "all read the same")
    return 1 if failed else 0


def is_read(row: Row, exports: Path) -> bool:
    """Let a reader read the exports in its own environment; print what is the same, or what went wrong."""
    begin, program = time.monotonic(), PROGRAMS / f"{row.name}.py"
    try:
        python = make_environment(BUILD / row.name, load_program(program).PACKAGES)
        same = run(python, "-m", "tests.readers.reader", program, exports, cwd=ROOT).strip()
    except subprocess.CalledProcessError as error:
        print(f"{row.name}: {shlex.join(map(str, error.cmd))}\n{error.stdout}\n{error.stderr}", flush=True)
        return False
    print(f"{row.package}: {same}, in {time.monotonic() - begin:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
