from datetime import UTC, datetime, timedelta

from infer_app.cli.look.status import show_status
from tests.conftest import MODEL
from tests.support.results import commit, predicted

NOW = datetime.now(UTC).replace(tzinfo=None)


def test_a_day_without_images_is_not_called_done_and_what_is_older_is_told_once(
    database, register, add_model, add_run, monkeypatch, tmp_path, capsys
):
    """Two images of long ago are pending; one of three days ago was predicted, and on the days since none came."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    dates = [(NOW - timedelta(days=ago)).replace(hour=12) for ago in (3, 2, 1)]
    register("/p/1.jpg", at=dates[0])
    register("/p/old 1.jpg", "/p/old 2.jpg", at=NOW - timedelta(days=40))
    add_model("cats", MODEL.model_id, NOW)
    commit(database, predicted("1"))
    for number, at in enumerate(dates):
        add_run(run_id=f"r{number}", day=at.date(), model="cats", started_at=at, selected=0, predicted=0, rejected=0)
    show_status(7, None, False, None)
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    told = [(cells[2].strip().strip("○✓! "), cells[-1].strip()) for cells in rows]
    assert told == [("no images", "2 of earlier days pending"), ("no images", ""), ("done", "")]
