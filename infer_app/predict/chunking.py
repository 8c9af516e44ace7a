"""Cuts a day's images into chunks, the unit of dispatch, retry and commit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from infer_app.base.domain import Chunk, ChunkResult, NewImage

FEW_IMAGES = 8  # every batch size divides it
MAX_IMAGES = 256  # a chunk must fit a pipe, so that sending it never waits
MAX_OBJECTS = 512  # stored ones in a chunk, for the same reason
CHUNK_S = 0.25  # long enough to make the cost of a commit small, short enough for workers to end together


class ChunkSize:
    """The number of images that keep a worker busy for CHUNK_S, by the chunks before; or a fixed number.

    It is a multiple of `least`, the number of the first chunk, so that the first commit comes soon.
    """

    def __init__(self, fixed: int = 0, least: int = FEW_IMAGES) -> None:
        self._fixed = fixed
        self._found = self._least = least

    def __call__(self) -> int:
        return self._fixed or self._found

    def learn(self, result: ChunkResult) -> None:
        """Adapt the size to the CPU and waiting time of a chunk; time lost to other processes does not count."""
        seconds = sum(result.cpu_seconds.values()) + sum(result.wait_seconds.values())
        num_images = result.num_images
        if seconds <= 0 or not num_images:
            return
        fitting = min(MAX_IMAGES, int(CHUNK_S * num_images / seconds))
        step = FEW_IMAGES if fitting >= FEW_IMAGES else self._least
        self._found = max(self._least, fitting // step * step)


def cut_into_chunks(new: Iterable[NewImage], size: ChunkSize) -> Iterator[Chunk]:
    """Yield numbered chunks, the last ones shorter; images are read lazily, so that no day is held in memory.

    All images of a chunk are new for the same models, so that nothing is predicted twice.
    """
    waiting: dict[tuple[int, ...], list[NewImage]] = {}
    num_objects = Counter[tuple[int, ...]]()
    number = 0
    for image in new:
        models = image.model_indices
        images = waiting.setdefault(models, [])
        images.append(image)
        if image.objects:
            num_objects[models] += len(image.objects.objects)
        if len(images) >= size() or num_objects[models] >= MAX_OBJECTS:
            yield _chunk(number, waiting.pop(models))
            num_objects[models] = 0
            number += 1
    for images in waiting.values():
        yield _chunk(number, images)
        number += 1


def _chunk(number: int, images: Sequence[NewImage]) -> Chunk:
    objects = {image.ref: image.objects for image in images if image.objects is not None}
    return Chunk(number, tuple(image.ref for image in images), images[0].model_indices, objects=objects)
