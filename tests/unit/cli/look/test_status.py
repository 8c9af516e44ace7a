from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from infer_app.cli.look.status import show_status
from infer_app.database.results.schema import models, predictions, runs

NOW = datetime.now(UTC).replace(tzinfo=None)


@pytest.fixture
def three_days(database, register, monkeypatch, tmp_path):
    """Two images of long ago are pending; one of three days ago was predicted, and on the days since none came."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    dates = [(NOW - timedelta(days=ago)).replace(hour=12) for ago in (3, 2, 1)]
    register("/p/1.jpg", at=dates[0])
    register("/p/old 1.jpg", "/p/old 2.jpg", at=NOW - timedelta(days=40))
    with database.write() as connection:
        in_use = {"in_use_since": NOW, "created_at": NOW}
        connection.execute(insert(models), {"id": "0" * 16, "name": "cats", "manifest": {}} | in_use)
        result = {"image_id": "1", "model_id": "0" * 16, "run_id": "r0", "created_at": NOW, "variant": "v"}
        connection.execute(insert(predictions), result | {"label": "x", "output": "{}"})
        for number, at in enumerate(dates):
            row = {"id": f"r{number}", "day": at.date(), "time_zone": "UTC", "interval_start": at, "interval_end": at}
            row |= {"model": "cats", "model_id": "0" * 16, "variant": "v", "executor": "cpu", "device": "cpu"}
            row |= {"host": "h", "process": "1@1@1", "versions": {}, "state": "done", "started_at": at}
            row |= {"heartbeat_at": at, "selected": 0, "predicted": 0, "rejected": 0, "exit_code": 0}
            connection.execute(insert(runs), row)


@pytest.mark.usefixtures("three_days")
def test_a_day_without_images_is_not_called_done_and_what_is_older_is_told_once(capsys):
    show_status(7, False, None)
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    told = [(cells[2].strip().strip("○✓! "), cells[-1].strip()) for cells in rows]
    assert told == [("no images", "2 of earlier days pending"), ("no images", ""), ("done", "")]
