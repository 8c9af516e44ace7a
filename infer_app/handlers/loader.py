"""From refs to pixels: read, decode, transform, collate. The same code in every executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from infer_app.domain import NOT_READ, Batch, Broken, Chunk, FileFacts, ImageRef, Reason, Sample
from infer_app.handlers.handler_spec import HandlerSpec
from infer_app.images.cache.cache_key import CacheKey
from infer_app.images.cache.pixel_cache import PixelCache
from infer_app.images.decode.decoder import DecodeLimits, decode_image, decoder_name
from infer_app.images.decode.gpu_decoder import suits_gpu
from infer_app.images.read.bad_image import BadImage, ImageBytes
from infer_app.images.read.read_image import ReadLimits, read_ahead, read_image
from infer_app.images.read.roots import check_root
from infer_app.images.transform.collate import collate
from infer_app.images.transform.to_pixels import transform
from infer_app.locations import is_local, is_remote
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.artifact.manifest import PREPROCESS_FILE
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Heartbeat

if TYPE_CHECKING:
    from infer_app.images.read.prefetch import Prefetch

WORTHWHILE_WAIT = 0.02  # of a chunk's time, spent waiting for its files


class Loader:
    """Never raises for an image: what can't be loaded is told apart from its neighbours.

    Raises StorageUnavailable where an image is not found because the folder of all of them is gone.
    """

    def __init__(self, spec: HandlerSpec, artifact: Artifact, has_gpu_decoder: bool = False) -> None:
        """With a GPU decoder behind it, it leaves files to that where they suit it."""
        manifest = artifact.manifest
        self.recipe = manifest.recipe
        self._preprocess = artifact.preprocess()
        self._read_limits = spec.read
        self._prefetch = _open_prefetch(self._read_limits) if spec.read.remote.places else None
        self.decode_limits = DecodeLimits(spec.max_pixels)
        self._has_gpu_decoder = has_gpu_decoder
        self._reads_wait = False  # from the first time on that they did: files in memory need no reading ahead
        self._cache: PixelCache | None = None
        if spec.cache is not None:
            key = CacheKey.of(self.recipe, spec.max_pixels, manifest.preprocess, manifest.files.get(PREPROCESS_FILE))
            self._cache = PixelCache.open(spec.cache.folder, spec.cache.max_bytes, key)

    def load(
        self, refs: Sequence[ImageRef], first: int, buffer: Tensor, heartbeat: Heartbeat, clock: StageClock
    ) -> Batch:
        """The good ones in the first rows of `buffer`, (N, H, W, 3) uint8; `first`: where refs[0] is in its chunk.

        `heartbeat` says what is in hand before each step that a broken file could crash or hang.
        """
        # An image that is alone may be so because a GPU's decoder died on it.
        leaves_some = self._has_gpu_decoder and len(refs) > 1
        samples = [self._load(ref, first + i, heartbeat, clock, leaves_some) for i, ref in enumerate(refs)]
        clock.refs = refs
        with clock.time("collate"):
            return collate(samples, buffer)

    def pixels(self, data: bytes) -> Tensor:
        """Those of an encoded image, (H, W, 3) uint8. Raises BadImage."""
        return transform(decode_image(data, self.recipe, self.decode_limits), self.recipe, self._preprocess)

    def begin(self, chunk: Chunk) -> None:
        """Before the first image of a chunk is loaded."""
        if self._prefetch is not None:  # of the first chunk, and of those whose listener comes late
            self._prefetch.expect(chunk)

    def prefetch(self, chunk: Chunk) -> None:
        """Has the files of a chunk read while another one is in hand: remote ones, and local ones where that waits."""
        if self._prefetch is not None:
            self._prefetch.expect(chunk)
        for ref in chunk.refs if self._reads_wait else ():
            read_ahead(ref.location, self._read_limits)

    def learn(self, clock: StageClock) -> None:
        """From what a chunk took: does reading wait?"""
        self._reads_wait |= clock.wait_seconds["read"] > WORTHWHILE_WAIT * sum(clock.wall_seconds.values())

    def decode(
        self, ref: ImageRef, data: bytes, facts: FileFacts, position: int, heartbeat: Heartbeat, clock: StageClock
    ) -> Sample | Broken:
        """From the bytes of a file to its pixels."""
        stage = "decode"
        try:
            heartbeat.record(position, stage, facts)
            with clock.time(stage):
                picture = decode_image(data, self.recipe, self.decode_limits)
            stage = "transform"
            heartbeat.record(position, stage, facts)
            with clock.time(stage):
                pixels = transform(picture, self.recipe, self._preprocess)
            self._keep(facts, pixels, clock)
            return Sample(ref, pixels, facts)
        except (BadImage, MemoryError) as error:
            return _broken(ref, error, stage, facts)

    def _load(
        self, ref: ImageRef, position: int, heartbeat: Heartbeat, clock: StageClock, leaves_some: bool
    ) -> Sample | Broken:
        facts = FileFacts()
        clock.refs = (ref,)
        try:
            heartbeat.record(position, "read")
            with clock.time("read"):
                image = self._read(ref)
            facts = image.facts
            if (kept := self._cached(facts, clock)) is not None:
                return Sample(ref, kept, facts)
            if leaves_some and self._suits_gpu(image.data, clock):
                return Sample(ref, _packed(image.data, self.recipe.size), facts, len(image.data))
        except (BadImage, MemoryError) as error:
            if isinstance(error, BadImage) and error.reason in NOT_READ and is_local(ref.location):
                check_root(ref.location, self._read_limits)
            return _broken(ref, error, "read", facts)
        return self.decode(ref, image.data, facts, position, heartbeat, clock)

    def _suits_gpu(self, data: bytes, clock: StageClock) -> bool:
        with clock.time("decode"):
            return suits_gpu(data, self.recipe, self.decode_limits)

    def _read(self, ref: ImageRef) -> ImageBytes:
        if self._prefetch is not None and is_remote(ref.location):
            return self._prefetch.read(ref)
        return read_image(ref.location, self._read_limits)

    def _cached(self, facts: FileFacts, clock: StageClock) -> Tensor | None:
        if self._cache is None or facts.sha256 is None:
            return None
        row = torch.empty((self.recipe.size, self.recipe.size, 3), dtype=torch.uint8)
        with clock.time("cache"):
            return row if self._cache.get(facts.sha256, row.numpy()) else None

    def _keep(self, facts: FileFacts, pixels: Tensor, clock: StageClock) -> None:
        if self._cache is not None and facts.sha256 is not None:
            with clock.time("cache"):
                self._cache.put(facts.sha256, pixels.numpy())


def _packed(data: bytes, size: int) -> Tensor:
    """A row that begins with the bytes of a file."""
    row = torch.empty((size, size, 3), dtype=torch.uint8)
    row.view(-1).numpy()[: len(data)] = np.frombuffer(data, np.uint8)
    return row


def _broken(ref: ImageRef, error: BadImage | MemoryError, stage: str, facts: FileFacts) -> Broken:
    if isinstance(error, BadImage):
        return Broken(ref, error.reason, error.detail, stage, error.facts or facts, decoder_name())
    return Broken(ref, Reason.OUT_OF_MEMORY, f"no memory left to {stage} it", stage, facts, decoder_name())


def _open_prefetch(limits: ReadLimits) -> Prefetch:
    from infer_app.images.read.prefetch import Prefetch  # most runs have nothing remote

    return Prefetch(limits)
