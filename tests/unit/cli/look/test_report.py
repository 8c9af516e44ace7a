from datetime import date, datetime

import pytest

from infer_app.ask.page.reports import choose_models
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.cli.commands.run_commands import RunOptions
from infer_app.cli.look.report import run_and_report
from tests.conftest import DAY

OTHER_DAY = date(2026, 11, 19)


@pytest.fixture
def ran(add_model, add_run):
    """ran("cats", "id-1", day) registers the model and a run of it."""
    hours = iter(range(24))

    def one(name, model_id, day):
        at = datetime(2026, 11, 21, next(hours))
        add_model(name, model_id, at, used_until=at)
        add_run(run_id=model_id, day=day, model=name, model_id=model_id, started_at=at)

    return one


def test_of_each_name_the_version_that_did_the_day(tables, ran):
    ran("cats", "old", DAY.date)
    ran("cats", "new", DAY.date)
    ran("cats", "newer", OTHER_DAY)
    ran("dogs", "dog", OTHER_DAY)
    assert choose_models(tables, DAY) == [("cats", "new")]
    assert choose_models(tables, DAY, ["dogs", "cats", "dogs"]) == [("cats", "new"), ("dogs", "dog")]
    on_a_day_without_runs = choose_models(tables, DAY.before(5))
    assert sorted(on_a_day_without_runs) == [("cats", "newer"), ("dogs", "dog")]


def test_a_model_that_never_ran_is_refused(tables, ran):
    with pytest.raises(UsageError, match="no model has run"):
        choose_models(tables, DAY)
    ran("cats", "cat", DAY.date)
    with pytest.raises(UsageError, match="no model 'dogs' has run"):
        choose_models(tables, DAY, ["dogs"])


def test_how_a_run_ended_is_not_changed_by_its_report(tmp_path, caplog):
    def fail():
        raise StorageUnavailable("gone")

    nowhere = RunOptions(date=DAY.date.isoformat(), config=tmp_path / "infer.toml")
    assert run_and_report(lambda: 143, nowhere) == 143
    assert caplog.records == []  # one that was stopped by a signal ends at once
    assert run_and_report(lambda: 3, nowhere) == 3
    with pytest.raises(StorageUnavailable):
        run_and_report(fail, nowhere)
    assert [record.message.split(":")[0] for record in caplog.records] == ["no report", "no report"]
