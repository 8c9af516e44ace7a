"""The networks of a handler that take the objects of a detector; crops of several images fill one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from infer_app.base.domain import (
    Batch,
    Broken,
    Chunk,
    CropOutput,
    DetectedObject,
    FoundObject,
    Objects,
    Output,
    Prediction,
    Reason,
    Sample,
    StoredObjects,
)
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.loader import Loader
from infer_app.predict.handlers.predictor import LoadedModel
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.transform.crop import cut_out
from infer_app.predict.images.transform.geometry import Picture
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.predict.workers.heartbeat import Heartbeat


class SecondNetworks:
    """The second networks of a handler; each takes the objects of its own gate."""

    def __init__(self, models: Sequence[LoadedModel], loader: Loader) -> None:
        self._networks = {model.model_index: _SecondNetwork(model, loader) for model in models}

    def pixels_of(self, model_index: int) -> Callable[[bytes], np.ndarray]:
        """Return what makes a network's pixels of a golden image, which is a crop already."""
        return self._networks[model_index].pixels

    def wanted(self, chunk: Chunk) -> list[_SecondNetwork]:
        """Return those that the chunk's images are new for."""
        return [self._networks[index] for index in chunk.model_indices if index in self._networks]

    def add(
        self, chunk: Chunk, sample: Sample, found: Objects | Broken, heartbeat: Heartbeat, clock: StageClock
    ) -> None:
        """Take an image, whose picture was kept, with what the detector found in it, or why it found nothing."""
        position = chunk.refs.index(sample.ref)
        for network in self.wanted(chunk):
            network.add(sample, found, position, heartbeat, clock)

    def finish(self, chunk: Chunk, heartbeat: Heartbeat, clock: StageClock) -> Iterator[Prediction | Broken]:
        """Yield one result for each image of the chunk that was taken, and for each network that it is new for."""
        for network in self.wanted(chunk):
            heartbeat.record(len(chunk.refs) - 1, "model", models=[network.index])
            yield from network.finish(clock)


@dataclass
class _Cropped:
    """An image with what is known so far of the objects that a network takes."""

    sample: Sample  # without its picture, which is no longer needed
    outputs: list[CropOutput] = field(default_factory=list)
    broken: Broken | None = None


class _SecondNetwork:
    def __init__(self, model: LoadedModel, loader: Loader) -> None:
        manifest, self.index = model.artifact.manifest, model.model_index
        assert manifest.crop is not None
        self._model, self._loader, self._crop, self._recipe = model, loader, manifest.crop, manifest.recipe
        self._function, self._preprocess = model.artifact.crop_function(), model.artifact.preprocess()
        self._buffer = np.empty((model.batch_size, *manifest.recipe.size.shape), np.uint8)
        self._waiting: list[tuple[_Cropped, FoundObject]] = []  # whose crop each row of the buffer is
        self._images: list[_Cropped] = []

    def add(
        self, sample: Sample, found: Objects | Broken, position: int, heartbeat: Heartbeat, clock: StageClock
    ) -> None:
        image = _Cropped(replace(sample, pixels=None, picture=None))
        self._images.append(image)
        if isinstance(found, Broken):
            image.broken = found.for_second_network(self._model.model_index, self._crop.of)
            return
        assert sample.picture is not None
        picture = Picture.whole(sample.picture)
        record = partial(heartbeat.record, position, file=sample.file, models=[self.index])
        for of_object in found:
            place, one, _ = of_object
            if not self._crop.takes(one) or image.broken:
                continue
            try:
                with clock.time("transform"), self._loader.within_memory():
                    self._buffer[len(self._waiting)] = self._pixels(picture, one, record)
            except BadImage as bad:
                self._reject(image, place, bad.reason, bad.detail, "transform")
                continue
            except MemoryError:
                self._reject(image, place, Reason.OUT_OF_MEMORY, "out of memory in stage transform", "transform")
                continue
            self._waiting.append((image, of_object))
            if len(self._waiting) == len(self._buffer):
                heartbeat.record(position, "model", models=[self.index])
                self._predict(clock)

    def pixels(self, data: bytes) -> np.ndarray:
        return self._loader.pixels_by(data, self._recipe, self._preprocess)

    def finish(self, clock: StageClock) -> Iterator[Prediction | Broken]:
        self._predict(clock)
        for image in self._images:
            sample = image.sample
            if image.broken:
                yield image.broken
            else:
                yield Prediction(sample.ref, output_of_image(image.outputs), sample.file, self._model.model_index)
        self._images = []

    def _pixels(self, picture: Picture, one: DetectedObject, record: Callable[[str], None]) -> np.ndarray:
        box = (one.x, one.y, one.width, one.height)
        record("transform" if self._function is None else "crop")
        crop = cut_out(picture, box, self._crop.rule, self._function)
        record("transform")
        return transform(crop, self._recipe, self._preprocess)

    def _predict(self, clock: StageClock) -> None:
        """Predict the crops that wait, and add each output to its image."""
        waiting, self._waiting = self._waiting, []
        batch = Batch(self._buffer[: len(waiting)], tuple(image.sample for image, _ in waiting), ())
        results = self._model.infer(batch, clock) if waiting else ()
        for (image, (place, _, number)), result in zip(waiting, results, strict=True):
            if isinstance(result, Prediction):
                image.outputs.append(CropOutput(place, result.output, number))
            else:
                self._reject(image, place, result.reason, result.detail, result.stage)

    def _reject(self, image: _Cropped, place: int, reason: Reason, detail: str, stage: str) -> None:
        """Note why an image has no result: rows of some of its objects would look like all of them."""
        sample, index = image.sample, self._model.model_index
        why = f"object {place}: {detail}"
        image.broken = image.broken or Broken(sample.ref, reason, why, stage, sample.file, model_index=index)


def stored_objects(sample: Sample, stored: StoredObjects) -> Objects | Broken:
    """Return the objects that were found before, if that was in the bytes that were read now."""
    if stored.sha256 == sample.file.sha256:
        return stored.objects
    detail = "its objects were found in another file; `infer retry --image ID` finds them again"
    return Broken(sample.ref, Reason.OTHER_FILE, detail, "read", sample.file)


def output_of_image(crops: Sequence[CropOutput]) -> Output:
    """Return an image's output by those of its objects: the label of the highest score, of equal ones the first's."""
    labelled = [crop.output for crop in crops if crop.output.label is not None]
    best = max(labelled, key=lambda output: output.score or 0.0, default=Output())
    return Output(best.label, best.score, crops=tuple(crops))
