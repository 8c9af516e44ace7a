"""Gives second networks the objects that the detector found before; an image without one of them is done at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from infer_app.artifact.specs import CropSpec
from infer_app.base.domain import Broken, ChunkResult, ImageRef, NewImage, Objects, Output, Prediction, StoredObjects
from infer_app.run.flow.flow import FlowObserver, ModelRun
from infer_app.run.flow.run_plan import RunPlan
from infer_app.tables.engine.connect import Database
from infer_app.tables.project_database import ProjectDatabase
from infer_app.tables.rows.stored_objects import StoredDetection, read_detections

AT_ONCE = 256  # images whose objects are read in one query


def with_stored_objects(
    new: Iterable[NewImage],
    project: ProjectDatabase,
    plan: RunPlan,
    model_runs: Sequence[ModelRun],
    observer: FlowObserver,
) -> Iterator[NewImage]:
    """Yield the images for the workers: those that the detector has predicted already with their objects.

    What needs no worker is committed here: an image without an object that a second network takes has a prediction of
    none, and one that the detector rejected is rejected for the same reason.
    """
    stored = _StoredObjects(project, plan)
    images = iter(new)
    while some := list(islice(images, AT_ONCE)):
        done, left = stored.divide(some)
        if done.num_images:
            with observer.commit(done):
                for number in plan.second_networks:
                    model_runs[number].write_known(done)
        yield from left


class _StoredObjects:
    def __init__(self, project: ProjectDatabase, plan: RunPlan) -> None:
        assert plan.detector is not None
        self._project, self._detector = project, plan.detector
        self._detector_id = plan.model_ids[plan.detector]
        self._name = plan.models[plan.detector].name
        self._is_idle = plan.executions[plan.detector].is_idle
        self._crops: dict[int, CropSpec] = {
            number: artifact.manifest.crop for number, artifact in enumerate(plan.artifacts) if artifact.manifest.crop
        }

    def divide(self, images: Sequence[NewImage]) -> tuple[ChunkResult, list[NewImage]]:
        """Return the results of those images that need no worker, and the others.

        An image whose picture one network needs goes to a worker for all of them, so that it counts once.
        """
        detected = (image for image in images if self._detector not in image.model_indices)
        known = self._read([image for image in detected if not self._crops.keys().isdisjoint(image.model_indices)])
        done: list[Prediction | Broken] = []
        left: list[NewImage] = []
        for image in images:
            if self._detector in image.model_indices:
                left += [] if self._is_idle else [image]  # it came when the run was planned: the next one takes it
                continue
            detection = known.get(image.ref)  # None: it was forgotten meanwhile
            seconds = [index for index in image.model_indices if index in self._crops]
            others = tuple(index for index in image.model_indices if index not in self._crops)
            taken = self._taken(detection, seconds) if detection else ()
            if detection and (taken or (others and detection.rejected is None)):
                left.append(replace(image, objects=StoredObjects(taken, detection.file.sha256)))
                continue
            done += [self._result(image, detection, index) for index in seconds if detection]
            left += [replace(image, model_indices=others)] if others else []
        return ChunkResult.of(0, done, tuple(sorted(self._crops))), left

    def _read(self, images: Sequence[NewImage]) -> dict[ImageRef, StoredDetection]:
        if not images:
            return {}
        least = min(crop.min_score for crop in self._crops.values())
        refs = {image.picture: image.ref for image in images if image.picture is not None}
        return self._project.ask(_read, self._project.database, refs, self._detector_id, least)

    def _result(self, image: NewImage, detection: StoredDetection, index: int) -> Prediction | Broken:
        """Return what is known without the picture."""
        if (rejected := detection.rejected) is None:
            return Prediction(image.ref, Output(crops=()), detection.file, index)
        return replace(rejected, ref=image.ref).for_second_network(index, self._name)

    def _taken(self, detection: StoredDetection, seconds: Sequence[int]) -> Objects:
        """Return the objects that one of the networks takes, which are few of those that are stored."""
        crops = [self._crops[index] for index in seconds]
        return tuple(one for one in detection.objects if any(crop.takes(one.one) for crop in crops))


def _read(
    database: Database, images: Mapping[int, ImageRef], detector_id: str, least: float
) -> dict[ImageRef, StoredDetection]:
    with database.read() as connection:
        return read_detections(connection, images, detector_id, least)
