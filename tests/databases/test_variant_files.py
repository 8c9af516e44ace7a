"""What runs record of the files of a variant, on each database."""

from dataclasses import replace

import pytest
from sqlalchemy import update

from infer_app.tables.engine.connect import Database
from infer_app.tables.results.migrate import upgrade
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import runs
from tests.conftest import DAY, MODEL


@pytest.mark.parametrize(
    "kind", ["sqlite", "postgres", pytest.param("mariadb", marks=pytest.mark.slow)], indirect=True, scope="session"
)
def test_runs_tell_which_files_of_a_variant_predicted(url):
    with Database(url) as database:
        upgrade(database)
        run_store = RunStore(database)
        for sha256, day in (("a", DAY), ("b", DAY.before(1)), ("a", DAY.before(2)), (None, DAY.before(3))):
            run_id = run_store.open_run(day, MODEL)
            run_store.start_run(run_id, replace(MODEL, variant_sha256=sha256), "cpu", "cpu")
            with database.write() as connection:
                connection.execute(update(runs).where(runs.c.id == run_id).values(predicted=3, state="done"))
        of_model = MODEL.model_id, MODEL.variant
        assert list(run_store.variants_of_day(DAY, MODEL.model_id).values()) == [(MODEL.variant, "a")]
        assert run_store.predicted_by_others(*of_model, "b") == (6, DAY.before(2).date, DAY.date)
        assert run_store.predicted_by_others(*of_model, "a") == (3, DAY.before(1).date, DAY.before(1).date)
        assert run_store.predicted_by_others(MODEL.model_id, "int8", "a") is None
        assert run_store.dates_of_variant(*of_model) == [DAY.before(number).date for number in range(4)]
