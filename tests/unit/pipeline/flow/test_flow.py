from types import SimpleNamespace

import pytest

from infer_app.domain import ImageRef, NewImage, StoredObjects
from infer_app.pipeline.flow.flow import skip_stopped_models

DETECTOR, SECOND, OTHER = 0, 1, 2
REF = ImageRef("1", "/1.jpg")
STORED = StoredObjects((), None)


def model_runs(*stopped):
    models = [SimpleNamespace(model_id="d", detector_id=None), SimpleNamespace(model_id="s", detector_id="d")]
    models.append(SimpleNamespace(model_id="o", detector_id=None))
    return [
        SimpleNamespace(model=model, stopped="why" if number in stopped else None)
        for number, model in enumerate(models)
    ]


@pytest.mark.parametrize(
    ("stopped", "objects", "wanted"),
    [
        ((DETECTOR,), None, (OTHER,)),
        ((DETECTOR,), STORED, (SECOND, OTHER)),
        ((SECOND,), None, (DETECTOR, OTHER)),
        ((OTHER,), STORED, (SECOND,)),
    ],
)
def test_without_its_detector_a_second_network_goes_on_with_stored_objects_alone(stopped, objects, wanted):
    indices = (DETECTOR, SECOND, OTHER) if objects is None else (SECOND, OTHER)
    (image,) = skip_stopped_models([NewImage(REF, indices, objects)], model_runs(*stopped))
    assert image == NewImage(REF, wanted, objects)


def test_nothing_more_is_taken_once_all_models_are_stopped():
    endless = (NewImage(REF, (DETECTOR, SECOND, OTHER)) for _ in iter(int, 1))
    assert list(skip_stopped_models(endless, model_runs(DETECTOR, SECOND, OTHER))) == []
