"""The flow of images through a run: selection, chunks, worker pool, outage guard, failure budgets, sinks."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from infer_app.base.domain import ChunkResult, NewImage
from infer_app.predict.chunking import ChunkSize, cut_into_chunks
from infer_app.predict.executors import Pool
from infer_app.run.flow.model_run import ModelRun
from infer_app.run.flow.observer import FlowObserver

Guard = Callable[[Iterable[ChunkResult]], Iterator[ChunkResult]]


def run_flow(
    new: Iterable[NewImage],
    pool: Pool,
    guard: Guard,
    model_runs: Sequence[ModelRun],
    size: ChunkSize,
    observer: FlowObserver,
) -> None:
    """Predict the new images and commit the results, chunk by chunk."""
    chunks = cut_into_chunks(skip_stopped_models(new, model_runs), size)
    with closing(pool.run(chunks)) as results:  # if this day fails, the workers must have none of its chunks left
        for result in guard(results):
            with observer.commit(result):
                _commit(result, model_runs)
            size.learn(result)
    for model_run in model_runs:
        model_run.settle(any(one.stopped for one in model_runs if one.model.model_id == model_run.model.detector_id))


def _commit(result: ChunkResult, model_runs: Sequence[ModelRun]) -> None:
    """Write a chunk model by model, a second network's results only where its detector's objects could be written."""
    unwritten: dict[str | None, frozenset[str]] = {}
    rejected: dict[str | None, frozenset[str]] = {}
    for model_run in model_runs:
        model_id, detector_id = model_run.model.model_id, model_run.model.detector_id
        rejected[model_id] = frozenset(broken.ref.image_id for broken in result.of_model(model_run.number).broken)
        own = result.without(unwritten.get(detector_id, frozenset()))
        unwritten[model_id] = model_run.commit(own, rejected.get(detector_id, frozenset()))


def skip_stopped_models(new: Iterable[NewImage], model_runs: Sequence[ModelRun]) -> Iterator[NewImage]:
    """Skip the models whose failure budget is used up; `model_runs` are those that an image may be new for.

    With a detector that finds no more objects the second networks are skipped that would take them.
    """
    by_number = {one.number: one for one in model_runs}
    for image in new:
        stopped = {one.model.model_id for one in model_runs if one.stopped is not None}
        wanted = tuple(number for number in image.model_indices if _is_wanted(image, by_number[number], stopped))
        if wanted:
            yield image if wanted == image.model_indices else replace(image, model_indices=wanted)
        elif len(stopped) == len(model_runs):
            return


def _is_wanted(image: NewImage, model_run: ModelRun, stopped: set[str]) -> bool:
    takes_objects_of = model_run.model.detector_id if image.objects is None else None
    return not {model_run.model.model_id, takes_objects_of} & stopped
