"""Export a project in every format, and let the programs of the page read it: `make readers`.

Every reader has an environment of its own below build/readers, which `make clean` deletes. Names of readers, as in
tests/readers/programs, choose some.
"""

import shlex
import subprocess
import sys
import time

from tests.networks.__main__ import make_environment, run
from tests.networks.answers import load_program
from tests.readers.project import make_exports
from tests.readers.rows import PROGRAMS, ROOT, page_rows

BUILD = ROOT / "build" / "readers"


def main(names: list[str]) -> int:
    begin, exports, failed = time.monotonic(), BUILD / "exports", []
    make_exports(exports)
    print(f"exports made in {time.monotonic() - begin:.0f} s", flush=True)
    for row in page_rows():
        if names and row.name not in names:
            continue
        begin, program = time.monotonic(), PROGRAMS / f"{row.name}.py"
        try:
            python = make_environment(BUILD / row.name, load_program(program).PACKAGES)
            same = run(python, "-m", "tests.readers.reader", program, exports, cwd=ROOT).strip()
            print(f"{row.package}: {same}, in {time.monotonic() - begin:.0f} s", flush=True)
        except subprocess.CalledProcessError as error:
            failed.append(row.name)
            print(f"{row.name}: {shlex.join(map(str, error.cmd))}\n{error.stdout}\n{error.stderr}", flush=True)
    print(f"not read, or not the same: {', '.join(failed)}" if failed else "all read the same")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
