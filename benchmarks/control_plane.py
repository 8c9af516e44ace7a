"""Measure the driver of a cluster without images and without a network: refs in, stub predictions out.

Dispatch (`ActorPool`) and messages are the real ones: chunks of refs to the actors, and a
prediction for each ref back. The actors reply immediately. With --commit the real sink writes the results to SQLite.
With --ranges one ref represents all of its chunk, so that only dispatch is measured and 100 million refs take minutes.
The figures are those of the driver process: its time grows with the number of chunks, its memory must not grow.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from machine import describe_machine
from peers import RESULTS

from infer_app.base.domain import Chunk, ChunkResult, FileFacts, ImageRef, Output, Prediction
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.sections import RaySettings
from infer_app.predict.cluster.actor_pool import Actor, ActorPool
from infer_app.predict.cluster.node_actor import ActorSpec, Opened, Reply
from infer_app.predict.cluster.ray_cluster import Cluster
from infer_app.predict.executors import open_pool
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.sink import Sink

OUTPUT = Output("tabby cat", 0.93, '{"top": [["tabby cat", 0.93], ["tiger cat", 0.04], ["lynx", 0.01]]}')
SHA256 = "0" * 64


class StubActor:
    """An actor that replies immediately."""

    def opened(self) -> Opened:
        return Opened("stub", "stub", 0.0)

    def process(self, chunk: Chunk) -> Reply:
        predictions = tuple(Prediction(ref, OUTPUT, FileFacts(sha256=SHA256)) for ref in chunk.refs)
        return Reply((ChunkResult(chunk.number, predictions, (), worker=1),), ())


class StubActorPool(ActorPool):
    def _start(self) -> Actor:
        options = {"num_cpus": 0, "max_concurrency": 4}
        handle = self._ray.remote(StubActor).options(**options).remote()
        return Actor(handle, handle.opened.remote())


@dataclass
class Sample:
    """Measurements of the driver after a number of refs."""

    refs: int
    seconds: float
    cpu_seconds: float
    memory_mib: float  # resident


def main() -> None:
    flags = read_flags()
    cluster = Cluster(RaySettings(), 2)
    handler = HandlerSpec((), ReadLimits((), 1), 1)
    pool = StubActorPool(cluster, RaySettings(actors=flags.actors), ActorSpec(handler, flags.workers, open_pool, 30), 1)
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        sink = open_sink(Path(folder)) if flags.commit else None
        step = flags.chunk_size if flags.ranges else 1
        samples = list(sample(pool, flags.refs, flags.chunk_size, step, sink))
    pool.close()
    cluster.close()
    table = render(samples, flags)
    print(table)
    if flags.save:
        kind = "-commit" if flags.commit else "-ranges" if flags.ranges else ""
        stem = RESULTS / f"{date.today().isoformat()}-control-plane{kind}"
        saved = {"machine": describe_machine(), "flags": vars(flags), "looks": [vars(sample) for sample in samples]}
        stem.with_suffix(".json").write_text(json.dumps(saved, indent=2) + "\n")
        stem.with_suffix(".md").write_text(f"# Cost of the driver of a cluster\n\n{table}\n")


def open_sink(folder: Path) -> Sink:
    database = Database(f"sqlite:///{folder / 'infer.db'}")
    upgrade(database)
    return Sink(database, "0123456789abcdef", "stub", "benchmark")


def stub_chunks(num_refs: int, chunk_size: int, step: int) -> Iterator[Chunk]:
    for number, first in enumerate(range(0, num_refs, chunk_size)):
        some = range(first, first + chunk_size, step)
        yield Chunk(number, tuple(ImageRef(str(i), f"/srv/photos/2026/11/20/{i:012}.jpg") for i in some))


def sample(pool: ActorPool, num_refs: int, chunk_size: int, step: int, sink: Sink | None) -> Iterator[Sample]:
    """Yield samples after 1, 2 and 5 times each power of ten; each ref in a chunk represents `step` refs."""
    done, limits = 0, iter(sorted(factor * 10**power for power in range(4, 10) for factor in (1, 2, 5)))
    next_limit = next(limits)
    started, cpu = time.monotonic(), time.process_time()
    for result in pool.run(stub_chunks(num_refs, chunk_size, step)):
        if sink is not None:
            sink.commit_chunk(result)
        done += step * len(result.predictions)
        if done >= min(next_limit, num_refs):
            next_limit = next(limits)
            yield Sample(done, time.monotonic() - started, time.process_time() - cpu, resident_mib())
            print(f"{done:,}: {resident_mib():.0f} MiB", file=sys.stderr, flush=True)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def render(samples: list[Sample], flags: Any) -> str:
    lines = ["| refs | seconds | refs/s | driver CPU, µs per ref | driver CPU, ms per chunk | driver memory, MiB |"]
    lines += ["|---:" * 6 + "|"]
    for sample in samples:
        num_chunks = sample.refs / flags.chunk_size
        cells = (
            f"{sample.refs:,}",
            f"{sample.seconds:.1f}",
            f"{sample.refs / sample.seconds:,.0f}",
            f"{1e6 * sample.cpu_seconds / sample.refs:.1f}",
            f"{1e3 * sample.cpu_seconds / num_chunks:.2f}",
            f"{sample.memory_mib:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    commit = "written to SQLite" if flags.commit else "not written"
    commit += ", one ref per chunk" * flags.ranges
    machine = describe_machine()
    lines += ["", f"Chunks of {flags.chunk_size}, {flags.actors} actors of {flags.workers} workers, results {commit}. "]
    lines += [
        f"{machine['processor']}, {machine['cores']} cores, Python {machine['python']}; {date.today().isoformat()}"
    ]
    return "\n".join(lines)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--refs", type=int, default=1_000_000)
    parser.add_argument("--chunk-size", type=int, default=256)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument(
        "--workers", type=int, default=2, help="of each actor, which gets twice as many chunks at a time"
    )
    parser.add_argument("--ranges", action="store_true", help="one ref represents all of its chunk")
    parser.add_argument("--commit", action="store_true", help="write the results to SQLite")
    parser.add_argument("--save", action="store_true", help="write results/<date>-control-plane.json and .md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
