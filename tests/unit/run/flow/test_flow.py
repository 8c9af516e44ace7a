from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.base.domain import (
    ChunkResult,
    CropOutput,
    DetectedObject,
    ImageRef,
    NewImage,
    Output,
    Prediction,
    StoredObjects,
)
from infer_app.base.settings.sections import RunSettings
from infer_app.predict.chunking import ChunkSize
from infer_app.run.flow.failure_budget import FailureBudget
from infer_app.run.flow.flow import ModelRun, run_flow, skip_stopped_models
from tests.conftest import DAY
from tests.support import second_networks as stored

DETECTOR, SECOND, OTHER = 0, 1, 2
REF = ImageRef("1", "/1.jpg")
STORED = StoredObjects((), None)


def model_runs(*stopped):
    models = [SimpleNamespace(model_id="d", detector_id=None), SimpleNamespace(model_id="s", detector_id="d")]
    models.append(SimpleNamespace(model_id="o", detector_id=None))
    budgets = [SimpleNamespace(stopped="why" if number in stopped else None) for number in range(len(models))]
    return [SimpleNamespace(number=n, model=models[n], budget=budget) for n, budget in enumerate(budgets)]


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


def test_a_second_network_has_no_result_of_objects_that_the_database_refused(tables):
    objects = (DetectedObject("animal", 0, 0.5, 0, 0, 1, 1),)
    refs = [ImageRef(number, f"/{number}.jpg") for number in ("1", "2")]
    found = [Prediction(ref, Output("animal", 0.5, objects=objects)) for ref in refs]
    made = [
        Prediction(ref, Output("lion", 0.5, crops=(CropOutput(0, Output("lion", 0.5)),)), model_index=1) for ref in refs
    ]
    result = ChunkResult(0, (*found, *made), (), (0, 1))
    with tables.database.write() as connection:
        refusal = "BEFORE INSERT ON infer_objects WHEN NEW.picture = 2 BEGIN SELECT RAISE(ABORT, 'no'); END"
        connection.exec_driver_sql(f"CREATE TRIGGER refuse {refusal}")
    models = [stored.DETECTOR, replace(stored.SECOND, detector_id=stored.DETECTOR.model_id)]
    run_ids = [tables.run_store.open_run(DAY, model) for model in models]
    budgets = [FailureBudget(RunSettings()) for _ in models]
    runs = [ModelRun(n, model, run_ids[n], tables.database, budgets[n]) for n, model in enumerate(models)]
    pool = SimpleNamespace(run=lambda chunks: (result for _ in chunks))
    observer = SimpleNamespace(commit=lambda _: nullcontext())
    run_flow([NewImage(refs[0], (0, 1))], pool, iter, runs, ChunkSize(), observer)
    assert [(run.predicted, dict(run.reasons)) for run in runs] == [(1, {"write_error": 1}), (1, {})]
