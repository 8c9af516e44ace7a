"""A handler whose results are hashes of the files' bytes: what it says of a file can be told bit by bit without it."""

import hashlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from infer_app.base.domain import Broken, ChunkResult, FileFacts, Output, Prediction, Reason
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.predict.workers.pool import WorkerPool

LABELS = ("red", "green", "blue")
IMAGE_S, SLOW_IMAGE_S = 0.004, 0.06
GOOD = b"\xff\xd8 a photo "


def answer(content: bytes) -> Output | Reason:
    if not content:
        return Reason.EMPTY
    if not content.startswith(GOOD):
        return Reason.UNSUPPORTED_FORMAT
    digest = hashlib.sha256(content).digest()
    score = int.from_bytes(digest[:7]) / 256**7
    return Output(LABELS[digest[8] % 3], score, json.dumps({"hash": digest.hex()}), digest, "float32", 8)


class StubHandler:
    def process(self, chunk, heartbeat):
        predictions, broken = [], []
        for position, ref in enumerate(chunk.refs):
            heartbeat.record(position, "read")
            try:
                content, stat = Path(ref.location).read_bytes(), Path(ref.location).stat()
            except FileNotFoundError:
                broken.append(Broken(ref, Reason.NOT_FOUND, "no such file", "read"))
                continue
            if b"ends its supervisor" in content:  # which started the fork server, which started this process
                os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
            time.sleep(SLOW_IMAGE_S if b"slow" in content else IMAGE_S)
            found, sha256 = answer(content), hashlib.sha256(content).hexdigest()
            facts = FileFacts(stat.st_size, stat.st_mtime, sha256)
            if isinstance(found, Output):
                predictions.append(Prediction(ref, found, facts))
            else:
                broken.append(Broken(ref, found, "no photo", "decode", facts, "stub"))
        cost, worker = {"decode": 1e-3}, os.getpid()
        return ChunkResult(chunk.number, tuple(predictions), tuple(broken), chunk.model_indices, cost, worker=worker)

    def copy_slot(self, chunk):
        return False

    def prefetch(self, chunk):
        pass


@dataclass(frozen=True, slots=True)
class OpenStubHandler:
    spec: HandlerSpec

    def __call__(self):
        return StubHandler()


def open_pool(open_handler, handler, num_workers, timeout_s, ring_spec=None):
    """Open the pool of a machine, or of each node of a cluster, which imports this module."""
    return WorkerPool([[open_handler(handler)] * num_workers], timeout_s)
