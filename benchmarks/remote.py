"""Measure the images per second that one worker reads from remote storage: one by one, and prefetched by threads.

A server in a separate process waits for the latency before it replies. For S3 it is the same server, queried by s3fs:
its replies are those to GetObject. Nothing is decoded, and there is no model.

    python benchmarks/remote.py --images FOLDER -n 500 --latency-ms 20
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.locations import AllowedPrefix, RemoteAccess
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.prefetch import Prefetch
from infer_app.predict.images.read.read_image import read_image
from tests.support.web_server import WebServer

CHUNK = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True, help="folder of photos")
    parser.add_argument("-n", type=int, default=500)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    given = parser.parse_args()
    files = sorted(path for path in given.images.iterdir() if path.is_file())
    print(f"{given.n} images with a latency of {given.latency_ms:g} ms, images/s (CPU ms per image of the reader)")
    with _server(files, given.latency_ms / 1e3) as port:
        os.environ |= {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "any"}
        os.environ |= {"AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}
        for place in (f"http://127.0.0.1:{port}/photos/", "s3://photos/"):
            refs = tuple(ImageRef(str(i), f"{place}{files[i % len(files)].name}") for i in range(given.n))
            print(f"{place:32}", end="")
            _measure("one by one", refs, _one_by_one, _limits(place, 1))
            for concurrency in (1, 4, 8, 16):
                _measure(f"prefetched, {concurrency:2}", refs, _prefetched, _limits(place, concurrency))
            print()


def _measure(name: str, refs: tuple[ImageRef, ...], read: Callable[..., None], limits: ReadLimits) -> None:
    read_image(refs[0].location, limits)  # imports and the first connection are not measured
    started, cpu = time.monotonic(), time.process_time()
    read(refs, limits)
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    print(f" | {name}: {len(refs) / seconds:,.0f} ({1e3 * cpu / len(refs):.2f})", end="", flush=True)


def _one_by_one(refs: tuple[ImageRef, ...], limits: ReadLimits) -> None:
    for ref in refs:
        read_image(ref.location, limits)


def _prefetched(refs: tuple[ImageRef, ...], limits: ReadLimits) -> None:
    """Read like a worker, which prefetches the next chunk while it processes the current one."""
    prefetch = Prefetch(limits)
    chunks = [Chunk(first, refs[first : first + CHUNK]) for first in range(0, len(refs), CHUNK)]
    prefetch.expect(chunks[0])
    for chunk, following in zip(chunks, [*chunks[1:], None], strict=True):
        if following is not None:
            prefetch.expect(following)
        for ref in chunk.refs:
            prefetch.read(ref)


def _limits(place: str, concurrency: int) -> ReadLimits:
    access = RemoteAccess((AllowedPrefix.parse(place),), frozenset({"127.0.0.1"}), 30.0, 3, concurrency)
    return ReadLimits((), 1 << 28, access)


@contextmanager
def _server(files: list[Path], latency_s: float) -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, files, latency_s), daemon=True)
    process.start()
    try:
        yield receiver.recv()
    finally:
        process.kill()
        process.join()


def _serve(sender: object, files: list[Path], latency_s: float) -> None:
    server = WebServer()
    server.latency_s = latency_s
    for file in files:
        server.serve(f"/photos/{file.name}", file.read_bytes())
    sender.send(server.port)  # type: ignore[attr-defined]
    server.serve_forever()


if __name__ == "__main__":
    main()
