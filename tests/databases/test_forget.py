"""`infer forget` deletes results for good, all that belongs to them and nothing else, and none becomes pending."""

import json
from collections import Counter
from datetime import datetime, timedelta

import pytest
from sqlalchemy import update

from infer_app.ask.image_report import find_place
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.base.run_report import DayCounts
from infer_app.base.settings.load import load_settings
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.listing.watched_images import mark_missing
from infer_app.tables.project_database import open_project_database
from infer_app.tables.queries.late_days import find_late_days
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.schema import objects, pictures, predictions, rejections
from tests.conftest import DAY, MODEL
from tests.support.forgetting import (
    DAYS,
    ID,
    NONE,
    NOTHING,
    OTHER,
    TABLE,
    WHOLE,
    answer,
    counts,
    forget,
    ids_of,
    run,
    stored,
)
from tests.support.statements import execute_at


def test_images_of_days_before_a_date_have_no_results_and_are_not_pending(loaded, listing, capsys):
    kept, reports = loaded.folder / "kept.jsonl", loaded.reports_folder
    reports.mkdir()
    gone = [f"{DAYS[0]}{name}" for name in (".html", ".json", "-birds.html", "-birds.json")]
    others = [f"{DAYS[0]}-notes.json", f"{DAYS[1]}.html", "index.html", "2000-02-30.html", "week-of-it.html"]
    for name in (*gone, *others):
        (reports / name).touch()
    kept.touch()
    with pytest.raises(UsageError, match="exists, nothing was deleted"):
        forget(loaded, before=str(DAYS[1]), to=kept)
    kept.unlink()
    forget(loaded, before=str(DAYS[1]), to=kept)
    assert answer(capsys) == NOTHING | {"predictions": 2, "objects": 2, "rejections": 1, "pages": 2}
    assert {file.name for file in reports.iterdir()} == {*others}
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    tables = Counter(row["table"] for row in rows)
    assert tables == {"infer_pictures": 3, "infer_predictions": 2, "infer_objects": 2, "infer_rejections": 1}
    assert {row["sha256"] for row in rows if row.get("sha256")} == {"ab" * 32}
    assert counts(loaded) == [NONE, WHOLE, WHOLE]
    assert stored(loaded, predictions, objects, rejections) == (4, 4, 2)
    assert [run(loaded, day) for day in DAYS] == [[], [], []]
    with open_project_database(loaded) as project:
        assert project.pending.find_older_pending(DAY, ID) is None
        assert project.source.nearest_date(DAYS[0].before(100)) == DAYS[1].date
        assert project.source.latest_date(DAYS[0]) is None
        (first, *_) = project.source.find_similar("1" if listing == "our table" else f"{DAYS[0].date:%d}-0")
        with pytest.raises(UsageError, match=f"has taken {DAYS[0]} out: no run covers it"):
            find_place(loaded, project, first[0], None)
    forget(loaded, before=str(DAYS[1]))
    forget(loaded, before=str(DAYS[0]))  # an earlier date brings nothing back
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [NOTHING, NOTHING]
    assert counts(loaded) == [NONE, WHOLE, WHOLE]


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_an_image_registered_late_for_a_forgotten_day_is_named(loaded, tmp_path, caplog):
    forget(loaded, as_json=False, before=str(DAYS[1]))
    with open_project_database(loaded) as project:
        known = [*tmp_path.glob("photos/*.jpg")]
        noon = DAYS[0].start.replace(tzinfo=None) + timedelta(hours=12)
        assert add_images(project.database, known, noon) == 0
        with project.database.write() as connection:
            connection.execute(update(pictures).values(queued_at=noon))
        assert find_late_days(project.database, project.source, DAY, [OTHER]) == [DAYS[1]]
    assert "no run takes 3 images registered late, of days before 2" in caplog.text


def miss_for_a_day(loaded):
    """Let runs find out which rows of the table are gone, and more than 24 hours pass."""
    for day in DAYS:
        run(loaded, day)
    is_gone = pictures.c.unlisted_since.is_not(None)
    with open_project_database(loaded) as project, project.database.write() as connection:
        connection.execute(update(pictures).where(is_gone).values(unlisted_since=datetime(2026, 1, 1)))


def test_pictures_that_are_gone_leave_nothing(loaded, listing, capsys, tmp_path):
    gone, back, *_ = sorted(tmp_path.glob("photos/*.jpg"))
    gone.unlink()
    if listing == "our table":
        with open_project_database(loaded) as project:
            mark_missing(project.database, ids_of(project.database, gone, back))
    else:
        execute_at(loaded.source_url, f"DELETE FROM shots WHERE path = '{gone}'")
        forget(loaded, missing=True)
        assert answer(capsys) == NOTHING
        miss_for_a_day(loaded)
    forget(loaded, missing=True)
    assert answer(capsys) == NOTHING | {"predictions": 1, "objects": 1, "images": int(listing == "our table")}
    assert counts(loaded) == [DayCounts(2, 1, 1, 0), WHOLE, WHOLE]
    forget(loaded, missing=True)
    assert answer(capsys) == NOTHING


def test_most_of_a_source_is_not_forgotten_without_a_second_flag(loaded, listing, capsys, tmp_path):
    """A table may be loaded anew, a storage be away, a date be mistyped."""
    with pytest.raises(UsageError, match="nothing was deleted: .* 6 of 9 results") as refused:
        forget(loaded, before=str(DAY))
    assert "--even-most" in refused.value.hint
    for path in sorted(tmp_path.glob("photos/*.jpg"))[1:]:
        path.unlink()
    if listing == "our table":
        with open_project_database(loaded) as project:
            mark_missing(project.database, list(range(2, 10)))
    else:
        execute_at(loaded.source_url, "DELETE FROM shots")
        miss_for_a_day(loaded)
    with pytest.raises(UsageError, match=f"nothing was deleted: .* {8 if listing == 'our table' else 9} of 9 results"):
        forget(loaded, missing=True)
    assert stored(loaded, predictions, objects, rejections) == (6, 6, 3)
    capsys.readouterr()
    forget(loaded, missing=True, even_most=True)
    assert answer(capsys)["predictions"] == (5 if listing == "our table" else 6)


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_no_picture_is_forgotten_whose_folder_is_empty_and_may_not_be_mounted(loaded, capsys, tmp_path):
    with open_project_database(loaded) as project:
        add_images(project.database, [tmp_path / "photos/camera/1.jpg"], DAY.start.replace(tzinfo=None))
        mark_missing(project.database, ids_of(project.database, tmp_path / "photos/camera/1.jpg"))
    (tmp_path / "photos/camera").mkdir()
    with pytest.raises(StorageUnavailable, match="camera holds no image"):
        forget(loaded, missing=True)
    (tmp_path / "photos/camera").rmdir()
    forget(loaded, missing=True)
    assert answer(capsys) == NOTHING | {"images": 1}


@pytest.mark.parametrize("listing", ["a table"], indirect=True)
def test_results_of_another_source_are_not_taken_for_those_of_pictures_that_are_gone(loaded, capsys, tmp_path):
    settings = loaded.path.read_text()
    loaded.path.write_text(settings.replace(TABLE, "[source]\n"))  # our own table, which is empty
    ours = load_settings(loaded.path)
    with open_project_database(ours) as project:
        add_images(project.database, [tmp_path / "photos" / "new-1.jpg"], DAY.start.replace(tzinfo=None))
    assert run(ours, DAY) == ["10"]  # a number that no picture of the table has
    loaded.path.write_text(settings)
    forget(loaded, missing=True)
    assert answer(capsys) == NOTHING
    assert stored(loaded, predictions) == (7,)


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_results_of_registered_photos_are_not_those_of_a_table_that_is_listed_now(loaded, capsys, execute):
    loaded.path.write_text(loaded.path.read_text().replace('watch = ["photos"]', "").replace("[source]\n", TABLE, 1))
    loaded = load_settings(loaded.path)
    execute("CREATE TABLE shots (id VARCHAR(20), path VARCHAR(400), taken DATE)")
    execute(f"INSERT INTO shots VALUES ('1', '/1.jpg', '{DAY}')")
    assert run(loaded, DAY) == ["1"]
    execute("DELETE FROM shots")
    miss_for_a_day(loaded)
    with pytest.raises(UsageError, match="most of what there is, 1 of 1 results"):
        forget(loaded, as_json=False, missing=True)
    forget(loaded, as_json=False, missing=True, even_most=True)
    assert "9 results of registered photos before stay" in capsys.readouterr().out
    assert stored(loaded, predictions, rejections) == (6, 3)


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_a_former_version_is_forgotten_and_counts_on_no_day(loaded, capsys):
    for refused in (MODEL.name, ID):
        with pytest.raises(UsageError, match="is in use: its images would be predicted again"):
            forget(loaded, model=refused)
    run(loaded, DAY, OTHER)
    with open_project_database(loaded) as project:
        switch_version(project.database, MODEL.name, OTHER, {})
    forget(loaded, as_json=False, model=ID, even_most=True)
    said = capsys.readouterr().out
    assert "No model in use has a result of 6 images of them: they are pending then." in said
    assert "deleted 6 predictions with 6 objects, 3 rejections" in said
    assert counts(loaded, OTHER) == [DayCounts(3, 0, 0, 3), DayCounts(3, 0, 0, 3), WHOLE]
    with open_project_database(loaded) as project:
        assert project.versions.models_of_day(DAYS[0]) == [(MODEL.name, OTHER)]
