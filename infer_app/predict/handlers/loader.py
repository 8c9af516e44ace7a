"""The first steps of every handler: read, decode and transform each image, and collate them to a batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import (
    NOT_READ,
    Batch,
    Broken,
    Chunk,
    ChunkResult,
    FileFacts,
    ImageRef,
    Loaded,
    Reason,
    Sample,
)
from infer_app.base.locations import is_local, is_remote
from infer_app.base.machine import find_memory_limit, kept_within_memory
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.handler_spec import HandlerSpec
from infer_app.predict.images.decode.capture_time import capture_time
from infer_app.predict.images.decode.decoder import decode_image, decoder_name
from infer_app.predict.images.decode.formats import check_answer
from infer_app.predict.images.decode.picture_figures import measure_picture
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.local_files import read_ahead
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.read.roots import check_root
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import Preprocess, transform
from infer_app.predict.workers.heartbeat import Heartbeat
from infer_app.predict.workers.shared_ring import Ring

if TYPE_CHECKING:
    from infer_app.predict.images.read.prefetch import Prefetch

MAX_KEPT_BYTES = 96 << 20  # of a worker's decoded pictures, that second networks take objects of
WORTHWHILE_WAIT = 0.02  # share of a chunk's time that is spent waiting for its files, from which reading ahead pays


class Loader:
    """Loads the images of a chunk; an image that can't be loaded becomes `Broken` and doesn't affect the others.

    Raises StorageUnavailable if an image is not found because the folder that contains all images is missing.
    """

    def __init__(self, spec: HandlerSpec, artifact: Artifact) -> None:
        self.recipe = artifact.manifest.recipe
        self._preprocess = artifact.preprocess()
        self._read_limits = spec.read
        self._prefetch = _open_prefetch(self._read_limits) if spec.read.remote.places else None
        self._max_pixels = spec.max_pixels
        self._memory_limit: int | None = None  # for a chunk
        self._models: Collection[int] = (0,)  # of a chunk
        self._keeps_pictures = False
        self._reads_wait = False  # set once reads have waited: files in the page cache need no reading ahead

    def load(
        self, refs: Sequence[ImageRef], first: int, buffer: np.ndarray, heartbeat: Heartbeat, clock: StageClock
    ) -> Batch:
        """Load good images into the first rows of `buffer`, (N, H, W, 3) uint8; `first`: index of refs[0] in its chunk.

        `heartbeat` records each step before a broken file could crash it or make it hang. Where the chunk's pictures
        are kept, the first refs may already take all the memory that there is for them: the others are left.
        """
        samples: list[Sample | Broken] = []
        num_bytes = 0
        with self.within_memory():
            for position, ref in enumerate(refs, start=first):
                samples.append(self._load(ref, position, heartbeat, clock))
                num_bytes += _kept_bytes(samples[-1])
                if num_bytes > MAX_KEPT_BYTES:
                    break
        with clock.time("collate"):
            return collate(samples, buffer)

    def within_memory(self) -> AbstractContextManager[object]:
        """Return a context in which an image that takes too much memory raises MemoryError."""
        return kept_within_memory(self._memory_limit)

    def pixels(self, data: bytes) -> np.ndarray:
        """Decode and transform an encoded image to pixels, (H, W, 3) uint8. Raises BadImage."""
        return self.pixels_by(data, self.recipe, self._preprocess)

    def pixels_by(self, data: bytes, recipe: Recipe, preprocess: Preprocess | None) -> np.ndarray:
        """Do the same by the recipe of another model."""
        return transform(decode_image(data, recipe, self._max_pixels), recipe, preprocess)

    def begin(self, chunk: Chunk, models: Collection[int] = (0,), *, keeps_pictures: bool = False) -> None:
        """Begin a chunk, before its first image is loaded.

        `models`: those for which pixels of whole pictures are made; `keeps_pictures`: for networks that take objects.
        """
        self._models, self._keeps_pictures = models, keeps_pictures
        self._memory_limit = find_memory_limit()
        if self._prefetch is not None:  # the first chunk, and those whose `prefetch` comes late
            self._prefetch.expect(chunk)

    def prefetch(self, chunk: Chunk) -> None:
        """Start reading the files of a chunk during another one: remote files, and local ones if reading them waits."""
        if self._prefetch is not None:
            self._prefetch.expect(chunk)
        for ref in chunk.refs if self._reads_wait else ():
            read_ahead(ref.location, self._read_limits)

    def learn(self, clock: StageClock) -> None:
        """Note from the times of a chunk whether reading waits."""
        self._reads_wait |= clock.wait_seconds["read"] > WORTHWHILE_WAIT * sum(clock.wall_seconds.values())

    def _load(self, ref: ImageRef, position: int, heartbeat: Heartbeat, clock: StageClock) -> Sample | Broken:
        image = _Image(ref)
        for stage, step in (("read", self._read), ("decode", self._decode), ("transform", self._transform)):
            heartbeat.record(position, stage, image.facts, self._models if stage == "transform" else ())
            try:
                with clock.time(stage):
                    step(image)
            except (BadImage, MemoryError) as error:
                return _broken(image, error, stage)
        clock.num_dim += image.picture.is_dim
        facts = replace(image.facts, picture=Size(image.picture.width, image.picture.height))
        return Sample(ref, image.pixels, facts, image.picture.rgb if self._keeps_pictures else None)

    def _read(self, image: _Image) -> None:
        location = image.ref.location
        try:
            if self._prefetch is not None and is_remote(location):
                found = self._prefetch.read(image.ref)
            else:
                found = read_image(location, self._read_limits)
        except BadImage as error:
            if error.reason in NOT_READ and is_local(location):
                check_root(location, self._read_limits)
            raise
        image.data, image.facts = found.data, found.facts
        if self._read_limits.reads_times:
            image.facts = replace(image.facts, taken=capture_time(image.data))

    def _decode(self, image: _Image) -> None:
        try:
            image.picture = decode_image(image.data, self.recipe, self._max_pixels)
        except BadImage as bad:
            if bad.reason is Reason.TRUNCATED and is_remote(image.ref.location):  # by a cache, while it was uploaded
                raise BadImage(Reason.READ_ERROR, f"cut off: {bad.detail}") from bad
            raise
        if self._read_limits.reads_times:
            image.facts = replace(image.facts, figures=measure_picture(image.picture.rgb))

    def _transform(self, image: _Image) -> None:
        if self._models:
            image.pixels = transform(image.picture, self.recipe, self._preprocess)


class LoadHandler:
    """Decodes the images of a chunk into its slot of the ring, in the `cuda` executor. It loads no torch."""

    def __init__(self, loader: Loader, ring: Ring) -> None:
        self._loader = loader
        self._ring = ring
        self._slots = ring.pixels

    @classmethod
    def open(cls, spec: HandlerSpec, ring: Ring) -> LoadHandler:
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # of torch, if a preprocess function of the user's own loads it
        return cls(Loader(spec, spec.models[0].open()), ring)

    def process(self, chunk: Chunk, heartbeat: Heartbeat) -> Loaded:
        assert chunk.slot is not None
        clock = StageClock()
        self._loader.begin(chunk, chunk.model_indices)
        batch = self._loader.load(chunk.refs, 0, self._slots[chunk.slot], heartbeat, clock)
        self._loader.learn(clock)
        result = ChunkResult(chunk.number, (), batch.broken, chunk.model_indices, num_loaded=len(batch.samples))
        good = replace(
            chunk,
            refs=tuple(sample.ref for sample in batch.samples),
            files=tuple(sample.file for sample in batch.samples),
        )
        return Loaded(good, clock.stamp(result))

    def copy_slot(self, chunk: Chunk) -> bool:
        return False

    def prefetch(self, chunk: Chunk) -> None:
        self._loader.prefetch(chunk)


class _Image:
    """An image on its way through the steps, each of which sets what the next one takes."""

    data: bytes
    picture: Picture
    pixels: np.ndarray | None = None

    def __init__(self, ref: ImageRef) -> None:
        self.ref = ref
        self.facts = FileFacts()


def collate(samples: Iterable[Sample | Broken], buffer: np.ndarray) -> Batch:
    """Copy good pixels into the first rows of `buffer`, (N, H, W, 3) uint8; `pixels` of the batch is a view of it.

    Samples without pixels have no row. If all samples are broken, the batch is valid and has n = 0. Raises ValueError
    for more good samples than rows.
    """
    good: list[Sample] = []
    broken: list[Broken] = []
    for sample in samples:
        if isinstance(sample, Broken):
            broken.append(sample)
            continue
        if len(good) == len(buffer):
            raise ValueError(f"more samples than the buffer's {len(buffer)} rows")
        if sample.pixels is not None:
            buffer[len(good)] = _checked(sample.pixels, sample.ref, buffer)
        good.append(sample)
    return Batch(pixels=buffer[: len(good)], samples=tuple(good), broken=tuple(broken))


def _broken(image: _Image, error: BadImage | MemoryError, stage: str) -> Broken:
    if isinstance(error, BadImage):
        return Broken(image.ref, error.reason, error.detail, stage, error.facts or image.facts, decoder_name())
    detail = f"out of memory in stage {stage}"
    return Broken(image.ref, Reason.OUT_OF_MEMORY, detail, stage, image.facts, decoder_name())


def _open_prefetch(limits: ReadLimits) -> Prefetch:
    from infer_app.predict.images.read.prefetch import Prefetch  # imported here: most runs have no remote images

    return Prefetch(limits, check_answer)


def _kept_bytes(sample: Sample | Broken) -> int:
    return 0 if isinstance(sample, Broken) or sample.picture is None else sample.picture.nbytes


def _checked(pixels: np.ndarray, ref: ImageRef, buffer: np.ndarray) -> np.ndarray:
    """Return a sample's pixels. Raises ValueError for another shape or dtype, which a copy would silently convert."""
    if pixels.shape != buffer.shape[1:] or pixels.dtype != buffer.dtype:
        raise ValueError(
            f"image {ref.image_id}: {pixels.dtype} {pixels.shape}, the batch takes {buffer.dtype} {buffer.shape[1:]}"
        )
    return pixels
