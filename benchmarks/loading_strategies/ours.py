"""Define the strategies of infer_app's own parts: the model runs in the process that has decoded the pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sized

from infer_app.base.domain import Chunk, ImageRef
from infer_app.predict.execution_plan import plan_run
from infer_app.predict.executors import open_executor
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.golden import predict_all
from infer_app.predict.workers.pool import WorkerPool
from loading_strategies import dataloaders
from loading_strategies.decode_handler import OpenHandler
from loading_strategies.workload import Workload


def handler(workload: Workload) -> Iterator[Sized]:
    with _pool(workload, OpenHandler(workload.readers)) as workers:
        for result in workers.run(_chunks(workload)):
            yield result.predictions


def loader_with_model(workload: Workload) -> Iterator[Sized]:
    return _predict_in_main_process(workload, plan_run(workload.loaded, workload.readers.artifact).variant)


def executor(workload: Workload) -> Iterator[Sized]:
    return _predict_in_workers(workload, "cpu")


def ring(workload: Workload) -> Iterator[Sized]:
    return _predict_in_workers(workload, "cuda")


def find_broken(workload: Workload) -> dict[str, str]:
    """Return the files that not every strategy can read, with the reasons; a crashed decoder costs only its file."""
    with _pool(workload, OpenHandler(workload.readers, needs_pillow=True)) as workers:
        results = list(workers.run(_chunks(workload)))
    return {broken.ref.location: str(broken.reason) for result in results for broken in result.broken}


def _pool(workload: Workload, open_handler: OpenHandler) -> WorkerPool:
    return WorkerPool([[open_handler] * workload.num_workers], workload.timeout_s)


def _chunks(workload: Workload) -> Iterator[Chunk]:
    for number, paths in enumerate(workload.batches()):
        yield Chunk(number, tuple(ImageRef(path, path) for path in paths))


def _predict_in_main_process(workload: Workload, variant: str) -> Iterator[Sized]:
    predict = open_variant(workload.readers.artifact, variant, num_threads=workload.num_workers)
    for batch in dataloaders.fast_collate(workload):
        predict_all(predict, batch.numpy(), predict.batch_size)
        yield batch


def _predict_in_workers(workload: Workload, executor: str) -> Iterator[Sized]:
    artifact, limits = workload.readers.artifact, workload.readers.read_limits
    run = workload.loaded.run.model_copy(update={"executor": executor})
    loaded = workload.loaded.model_copy(update={"run": run})
    with open_executor(loaded, [artifact], [plan_run(loaded, artifact)], limits) as opened:
        for result in opened.pool.run(_chunks(workload)):
            yield result.predictions
