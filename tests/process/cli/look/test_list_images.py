"""`infer list` and its neighbours over two versions of a model, as a person and as a script see them."""

import csv
import io
import json
import time
from datetime import datetime, timedelta

import pytest

from infer_app.ask import image_list
from infer_app.ask.page import reports
from infer_app.ask.page.reports import write_reports
from infer_app.base.atomic_file import replace_file
from infer_app.base.domain import Reason
from infer_app.base.errors import StorageUnavailable, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.commands.look_commands import ExplainOptions, ListOptions
from infer_app.cli.look.explain import show_image
from infer_app.cli.look.list_images import list_images
from infer_app.cli.look.retry_commands import retry_rejected
from infer_app.cli.look.verify import verify
from tests.conftest import DAY
from tests.support.results import broken, commit, predicted

pytestmark = pytest.mark.usefixtures("two_versions")

AT = datetime(2026, 11, 21, 3)
OLD, NEW, DOG, AGES = "0" * 16, "1" * 16, "d" * 16, "a" * 16


@pytest.fixture
def two_versions(database, register, add_model, monkeypatch, tmp_path):
    """Cats of two versions, of which the newer one has not seen image 3, and dogs; image 4 was rejected."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register(*(f"/p/{number}.jpg" for number in range(1, 5)))
    versions = [("cats", OLD, 1, "used_until"), ("cats", NEW, 3, "in_use_since"), ("dogs", DOG, 2, "in_use_since")]
    for name, model_id, day, mark in versions:
        add_model(name, model_id, datetime(2026, 11, day), **{mark: datetime(2026, 11, day)})
    commit(database, predicted(*"123"), broken("4"), model_id=OLD)
    commit(database, predicted(*"12"), broken("4"), model_id=NEW)
    commit(database, predicted("1"), model_id=DOG)


def told(capsys, command, *arguments):
    capsys.readouterr()
    command(*arguments)
    return json.loads(capsys.readouterr().out)


def listed(capsys, state="predicted", **options):
    """(image, name, version) of `--csv`, which must be those of `--json` and of the table."""
    options = {"state": state, "date": str(DAY)} | options
    capsys.readouterr()
    list_images(ListOptions(**options, as_csv=True))
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    of_json = told(capsys, list_images, ListOptions(**options, as_json=True))["images"]
    assert [{key: "" if one is None else str(one) for key, one in row.items()} for row in of_json] == rows
    list_images(ListOptions(**options))
    table = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if line.startswith("│")]
    assert [(image, location, message) for image, location, *_, message in cells] == [
        (row["image_id"], row["location"], row["message"]) for row in rows
    ]
    return [(row["image_id"], row["model"], row["model_id"]) for row in rows]


def test_each_image_is_listed_once_for_a_name_by_the_version_that_the_view_has(database, capsys):
    found = listed(capsys)
    assert found == [("1", "cats", NEW), ("1", "dogs", DOG), ("2", "cats", NEW), ("3", "cats", OLD)]
    with database.read() as connection:
        view = connection.exec_driver_sql("SELECT image_id, model, model_id FROM infer_current_predictions")
        assert sorted(tuple(row) for row in view) == sorted(found)
    assert listed(capsys, model="cats") == [one for one in found if one[1] == "cats"]


def test_an_image_that_waits_for_two_models_is_counted_once_in_what_is_to_be_done(database, add_model, capsys):
    add_model("hares", AGES, datetime(2026, 11, 2))
    commit(database, predicted("1"), model_id=AGES)
    assert len(listed(capsys, "pending")) == 6
    list_images(ListOptions(state="pending"))
    told = capsys.readouterr().out
    assert told.splitlines()[0].rstrip() == f"{DAY}, 3 pending"
    assert "to do for 3 images: " in told


def test_rejections_books_explanations_and_retries_are_those_of_the_version_that_is_named(capsys):
    assert listed(capsys, "rejected", model=OLD) == [("4", "cats", OLD)]
    assert [one["model_id"] for one in told(capsys, verify, str(DAY), OLD, None, None, True, None)["models"]] == [OLD]
    explained = told(capsys, show_image, ExplainOptions(image="1", model=OLD, as_json=True))
    assert [one["model_id"] for one in explained["models"]] == [OLD]
    for reasons, num_retried in ((["empty"], 0), (["empty", "corrupt"], 1)):
        assert told(capsys, retry_rejected, str(DAY), OLD, reasons, True, None)["retried"] == num_retried
    assert listed(capsys, "rejected") == [("4", "cats", NEW)]


def hang(refs, limits):
    time.sleep(60)


def test_rejected_images_are_listed_without_their_storage_but_for_those_rejected_for_their_location(
    database, capsys, monkeypatch
):
    monkeypatch.setattr(image_list, "refused_among", hang)
    monkeypatch.setattr(image_list, "STORAGE_TIMEOUT_S", 0.5)
    assert listed(capsys, "rejected") == [("4", "cats", NEW)]
    commit(database, (), broken("3", reason=Reason.LOCATION_NOT_ALLOWED), model_id=NEW)
    with pytest.raises(StorageUnavailable, match="no answer within"):
        listed(capsys, "rejected")


@pytest.mark.parametrize(
    ("changed", "is_one_run"),
    [
        ({"exit_code": 0}, False),
        ({"exit_code": 3}, False),  # it has come to its end
        ({"exit_code": 75}, True),
        ({"state": "failed", "exit_code": 14}, True),
        ({"state": "running", "exit_code": None, "ended_at": None}, True),  # killed
        ({"exit_code": 75, "heartbeat_at": AT - timedelta(days=1), "ended_at": AT - timedelta(days=1)}, False),
    ],
    ids=["hourly", "with rejections", "out of time", "failed", "killed", "the day before"],
)
def test_the_last_run_is_a_process_and_what_it_goes_on_with(register, database, add_run, capsys, changed, is_one_run):
    register("/p/5.jpg", at=AT - timedelta(hours=1))
    commit(database, predicted("5"), model_id=NEW)
    hour_ago = dict.fromkeys(("started_at", "heartbeat_at", "ended_at"), AT - timedelta(hours=1))
    add_run(run_id="before", model_id=NEW, process="1@100@pod", **hour_ago | changed)
    add_run(days_ago=-1, model_id=NEW, process="1@200@pod", started_at=AT, ended_at=AT)
    listed = told(capsys, list_images, ListOptions(state="predicted", model=NEW, as_json=True))["images"]
    assert [one["image_id"] for one in listed] == ([*"12"] if is_one_run else []) + ["5"]


def test_a_number_is_listed_as_it_is(database, add_model, capsys):
    add_model("ages", AGES, datetime(2026, 11, 4), kind="regression")
    commit(database, predicted("1", label=None, score=1234.56789), model_id=AGES)
    assert listed(capsys, model="ages") == [("1", "ages", AGES)]
    options = ListOptions(state="predicted", date=str(DAY), model="ages", as_json=True)
    (image,) = told(capsys, list_images, options)["images"]
    assert (image["message"], image["score"]) == ("1234.57", 1234.56789)


def test_a_version_that_was_tried_is_on_the_page_of_its_day_beside_the_one_in_use():
    loaded = load_settings()

    def written(*tried):
        (page,) = write_reports(loaded, [loaded.day(str(DAY))], tried)
        return page.html.name, list(page.report.by_name)

    assert written() == (f"{DAY}.html", ["cats", "dogs"])
    assert written(f"cats@{OLD}") == (f"{DAY}.html", [f"cats@{OLD[:8]}", f"cats@{NEW[:8]}", "dogs"])


def test_a_page_that_is_written_anew_keeps_what_was_tried_and_spoils_no_other_page(
    database, add_run, monkeypatch, caplog
):
    loaded = load_settings()
    page, data = (loaded.reports_folder / f"{DAY}.{kind}" for kind in ("html", "json"))
    write_reports(loaded, [loaded.day(str(DAY))], [f"cats@{OLD}"])
    before = data.read_bytes()
    for model, model_id in (("cats", NEW), ("dogs", DOG)):
        add_run(run_id=model, model=model, model_id=model_id, ended_at=datetime(2100, 1, 1))

    def ids():
        write_reports(loaded, [DAY.before(1)])
        return [one["model_id"] for one in json.loads(data.read_bytes())["models"]]

    def killed_before_the_last(file, content):
        if file == data:
            raise KeyboardInterrupt
        replace_file(file, content)

    page.write_text("old")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(reports, "replace_file", killed_before_the_last)
        ids()
    assert (page.read_text() != "old", data.read_bytes() == before) == (True, True)
    assert ids() == ids() == [OLD, NEW, DOG]
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE infer_models SET name = 'lost' WHERE id = '{OLD}'")
    assert ids() == [NEW, DOG]
    page.unlink()
    page.mkdir()
    assert ids() == [NEW, DOG]
    assert [record.message.split(":")[0] for record in caplog.records] == [f"the report of {DAY} stays as it was"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda name: list_images(ListOptions(state="predicted", model=name)),
        lambda name: list_images(ListOptions(state="rejected", model=name)),
        lambda name: verify(str(DAY), name, None, None, False, None),
        lambda name: retry_rejected(str(DAY), name, [], False, None),
        lambda name: show_image(ExplainOptions(image="1", model=name)),
        lambda name: write_reports(load_settings(), [DAY], [name]),
    ],
    ids=["predicted", "rejected", "verify", "retry", "explain", "report"],
)
def test_what_no_database_knows_is_refused_with_what_it_knows(ask):
    with pytest.raises(UsageError, match="no model 'bird' has run on this database") as caught:
        ask("bird")
    assert caught.value.hint == "those that have: cats, dogs"
