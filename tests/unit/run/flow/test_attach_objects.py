"""What needs no picture is done at once, and each image is counted once."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from infer_app.artifact.specs import CropSpec
from infer_app.base.domain import ImageRef, NewImage
from infer_app.run.flow.attach_objects import with_stored_objects
from infer_app.run.flow.run_plan import RunPlan
from tests.support.second_networks import DETECTOR, SECOND, StoredModel

FOUND, NONE, REFUSED = IDS = "123"
ANY, SURE, OTHER = 1, 2, 3  # two second networks and a model of whole pictures; 0 is the detector


def artifact(name, least=None):
    crop = None if least is None else CropSpec("animals", least)
    return SimpleNamespace(manifest=SimpleNamespace(name=name, crop=crop))


PLAN = RunPlan(
    tuple(artifact(*one) for one in [("animals",), ("any", 0.2), ("sure", 0.8), ("other",)]),
    (SimpleNamespace(is_idle=False),) * 4,
    (DETECTOR, SECOND, SECOND, SECOND),
)


@pytest.mark.parametrize(
    ("new_for", "left", "done"),
    [
        ((0, ANY, SURE), [(FOUND, (0, ANY, SURE)), (NONE, (0, ANY, SURE)), (REFUSED, (0, ANY, SURE))], []),
        ((ANY, SURE), [(FOUND, (ANY, SURE))], [(NONE, ANY), (NONE, SURE), (REFUSED, ANY), (REFUSED, SURE)]),
        ((SURE,), [], [(FOUND, SURE), (NONE, SURE), (REFUSED, SURE)]),
        ((ANY, OTHER), [(FOUND, (ANY, OTHER)), (NONE, (ANY, OTHER)), (REFUSED, (OTHER,))], [(REFUSED, ANY)]),
        ((OTHER,), [(FOUND, (OTHER,)), (NONE, (OTHER,)), (REFUSED, (OTHER,))], []),
    ],
)
def test_an_image_that_one_network_needs_is_left_for_all_and_others_are_done(tables, new_for, left, done):
    detector = StoredModel(tables.database, DETECTOR)
    detector.detect(FOUND, 0.5)
    detector.detect(NONE)
    detector.reject(REFUSED)
    committed = []
    runs = [SimpleNamespace(write_known=lambda result: committed.append(result))] * 4
    observer = SimpleNamespace(commit=lambda _: nullcontext())
    images = [NewImage(ImageRef(one, f"/{one}.jpg"), new_for, picture=int(one)) for one in IDS]
    found = list(with_stored_objects(images, tables, PLAN, runs, observer))
    assert [(one.ref.image_id, one.model_indices) for one in found] == left
    results = [one for result in committed[:1] for one in (*result.predictions, *result.broken)]
    assert sorted((one.ref.image_id, one.model_index) for one in results) == done
