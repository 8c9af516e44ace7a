"""Only decode JPEG files, by libjpeg-turbo, on several processes; print the images per second of all together."""

from __future__ import annotations

import argparse
import time
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from pixels import turbo_rgb


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=400, help="read into memory before the clock starts")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=5)
    flags = parser.parse_args()
    files = [path.read_bytes() for path in islice(sorted(flags.folder.iterdir()), flags.files)]
    with get_context("fork").Pool(flags.processes) as pool:
        print(sum(pool.starmap(rate, [(files, flags.seconds)] * flags.processes, chunksize=1)))


def rate(files: list[bytes], seconds: float) -> float:
    """Return the images per second of this process."""
    started, taken, decoded = time.perf_counter(), 0.0, 0
    while taken < seconds:
        for data in files:
            turbo_rgb(data)
        decoded += len(files)
        taken = time.perf_counter() - started
    return decoded / taken


if __name__ == "__main__":
    main()
