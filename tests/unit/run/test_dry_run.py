"""How a dry run samples and reports."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from infer_app.base.domain import ChunkResult, Output, Prediction
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.display import Progress
from infer_app.run import dry_run
from infer_app.run.flow.run_plan import RunPlan
from infer_app.run.stop import Stop
from tests.conftest import DAY, MODEL
from tests.support.results import run_day


def predict_again(chunk):
    """A result of the second of two models."""
    assert chunk.model_indices == (1,)
    found = tuple(Prediction(ref, Output("dog", 0.8), model_index=1) for ref in chunk.refs)
    return ChunkResult(chunk.number, found, (), chunk.model_indices)


@pytest.mark.parametrize(("num_images", "end", "taken"), [(3, 0.0, 3), (0, 0.0, 0), (9, 0.0, 4), (1, float("inf"), 4)])
def test_a_sample_ends_with_its_time_once_it_has_so_many_images(num_images, end, taken):
    pages = iter([["a", "b"], ["c"], ["d"]])
    assert [one for page in dry_run.take_until(pages, num_images, end) for one in page] == list("abcd")[:taken]


def test_the_first_report_is_of_the_model_with_most_images(tables, register, tmp_path):
    """Its costs are shown and make the forecast: a detector may have predicted the images of the others before."""
    register("/1.jpg")
    run_day(tables.database, tables.source, DAY)
    (tmp_path / "infer.toml").touch()
    executor = SimpleNamespace(
        **{"name": "cpu", "device": "cpu", "device_stages": (), "num_devices": 0, "least_chunk": 8},
        **dict.fromkeys(["num_workers", "num_predictors", "num_cores"], 1),
        handler=SimpleNamespace(num_threads=1),
        limit_chunk=lambda _: 0,
        pool=SimpleNamespace(run=lambda chunks: (predict_again(chunk) for chunk in chunks)),
    )
    working = SimpleNamespace(is_idle=False)
    group = SimpleNamespace(
        project=tables,
        plan=RunPlan((), (working, working), (MODEL, replace(MODEL, name="other", model_id="f" * 16))),
        executors=SimpleNamespace(open=lambda _: executor),
        loaded=load_settings(tmp_path / "infer.toml"),
        progress=Progress(quiet=True),
        stop=Stop(),
    )
    assert [one.selected for one in dry_run.dry_run(group, [DAY])] == [1, 0]
