import pytest

from infer_app.database.results.forget_results import forget_rejections, forget_results
from infer_app.database.results.sink import Sink
from infer_app.domain import Broken, ChunkResult, FileFacts, ImageRef, Output, Prediction, Reason
from infer_app.run_report import DayCounts
from tests.conftest import DAY, MODEL

ID = MODEL.model_id


@pytest.fixture
def write(tables, database):
    """write(good=["1"], bad=["2"]) writes predictions and rejections."""
    run_id = tables.run_store.open_run(DAY.before(1), MODEL)

    def write_results(good=(), bad=(), model_id=ID):
        predicted = tuple(Prediction(ImageRef(i, f"/{i}.jpg"), Output("cat", 0.5)) for i in good)
        broken = tuple(Broken(ImageRef(i, f"/{i}.jpg"), Reason.CORRUPT, "", "decode", FileFacts()) for i in bad)
        Sink(database, model_id, "cpu-torchscript", run_id).commit_chunk(ChunkResult(0, predicted, broken))

    return write_results


def test_forgotten_rejections_are_pending_again(tables, database, register, write):
    ids = [str(i) for i in range(1, 1101)]  # more than one statement takes
    register(*[f"/{i}.jpg" for i in ids])
    write(bad=ids)
    write(bad=["1"], model_id="another")
    assert forget_rejections(database, ids[:1050], ID) == 1050
    assert forget_rejections(database, ids[:1050], ID) == 0
    assert tables.day_queries.count_day(DAY, ID) == DayCounts(1100, 0, 50, 1050)
    assert tables.day_queries.count_day(DAY, "another").rejected == 1


def test_forgotten_results_are_predictions_and_rejections_of_one_model(tables, database, register, write):
    register("/1.jpg", "/2.jpg", "/3.jpg")
    write(good=["1", "3"], bad=["2"])
    write(good=["1"], model_id="another")
    assert forget_rejections(database, ["1"], ID) == 0
    assert forget_results(database, ["1", "2", "9"], [DAY.date], [(MODEL.name, ID)]) == 2
    assert tables.day_queries.count_day(DAY, ID) == DayCounts(3, 1, 0, 2)
    assert tables.day_queries.count_day(DAY, "another").predicted == 1
    assert tables.day_queries.find_problems(DAY, ID) == []
