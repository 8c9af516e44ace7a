"""What is forgotten goes with what was made of it, in parts that can be repeated."""

import io
import sys
from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import event

from infer_app.base.domain import ImageFile
from infer_app.base.errors import DayHeld, UsageError
from infer_app.base.run_report import DayCounts
from infer_app.tables import forgettable_results
from infer_app.tables.forget_results import delete_results, forget_rejections
from infer_app.tables.forgettable_results import ForgettableCounts, count_only_these, forget, of_versions
from infer_app.tables.listing.image_registry import register
from infer_app.tables.listing.watched_images import mark_missing
from infer_app.tables.project_database import open_project_database
from infer_app.tables.results.model_versions import switch_version
from infer_app.tables.results.project_row import forget_before
from infer_app.tables.results.schema import object_predictions, objects, predictions, rejections
from tests.conftest import DAY, MODEL
from tests.support.forgetting import NONE, NOTHING, WHOLE, answer, counts, ids_of, stored
from tests.support.forgetting import OTHER as SECOND_VERSION
from tests.support.forgetting import forget as command
from tests.support.second_networks import DOG, LION, OTHER, D, S, StoredModel, keys, made


@pytest.fixture
def two_networks(database, detector, species):
    """Two second networks of one detector, each with results of images 1 to 3, whose runs have ended."""
    sexes = StoredModel(database, OTHER, D)
    for image_id in ("1", "2"):
        detector.detect(image_id, 0.9, 0.8)
        species.classify(image_id, {0: LION, 1: DOG})
        sexes.classify(image_id, {1: LION})
    for model in (detector, species, sexes):
        model.reject("3")
        model.end_run()


def test_one_of_two_networks_is_forgotten_and_the_other_is_left_whole(database, tables, two_networks):
    found = ForgettableCounts.of(of_versions(database, [S]))
    deleted = forget(database, of_versions(database, [S], at_once=1), found)
    assert deleted == ForgettableCounts(predictions=2, rejections=1, of_second_networks=3)
    other = OTHER.model_id
    assert made(database) == [[("1", other), ("2", other)], [("3", other)], [("1", other, 1), ("2", other, 1)]]
    assert keys(database, predictions)[0] == [("1", other), ("1", D), ("2", other), ("2", D)]


def test_what_was_made_of_the_objects_of_a_forgotten_version_is_deleted_and_counted(database, tables, two_networks):
    switch_version(database, "animals", "e" * 16, {})
    assert count_only_these(database, [D], [S, "e" * 16]) == 3  # those of S count no more
    found = ForgettableCounts.of(of_versions(database, [D]))
    assert found == ForgettableCounts(predictions=6, objects=4, rejections=3, of_second_networks=6)
    assert forget(database, of_versions(database, [D], at_once=1), found) == found
    assert keys(database, predictions, rejections, objects, object_predictions) == [[], [], [], []]


@pytest.mark.parametrize(
    "delete", [delete_results, lambda connection, numbers, model_id: None], ids=["all", "rejections"]
)
def test_an_image_that_is_retried_is_pending_for_the_second_networks_too(database, two_networks, delete):
    with database.write() as connection:
        delete(connection, [1, 3], D)
    forget_rejections(database, [1, 3], D)
    kept = ["2"] if delete is delete_results else ["1", "2"]
    results, rejected, _ = made(database)
    assert (sorted({image_id for image_id, _ in results}), rejected) == (kept, [])


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_a_photo_that_comes_back_before_it_is_deleted_keeps_its_results(loaded, tmp_path):
    """It lies in its folder again, and a walk has found it."""
    first, second, *_ = sorted(tmp_path.glob("photos/*.jpg"))
    with open_project_database(loaded) as project:
        database = project.database
        mark_missing(database, ids_of(database, first, second))
        found = list(forgettable_results.of_missing(database, project.source, lambda paths: [True] * len(paths)))
        assert [len(part.results) for part in found] == [2]
        list(register(database, [ImageFile(str(second))], lambda new: []))
        deleted = forgettable_results.forget(database, found, ForgettableCounts.of(found))
    assert deleted == ForgettableCounts(predictions=1, objects=1, images=1)
    assert counts(loaded) == [DayCounts(2, 1, 1, 0), WHOLE, WHOLE]


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_what_was_interrupted_is_done_by_repeating_it(loaded, capsys):
    deleting = []

    def interrupt(connection, _cursor, statement, *_):
        if statement.startswith("DELETE") and connection not in deleting:
            deleting.append(connection)
        if len(deleting) == 2:
            raise KeyboardInterrupt  # before the second part is committed

    with open_project_database(loaded) as project:
        of_days = partial(forgettable_results.of_days_before, project.database, project.source, DAY)
        found = ForgettableCounts.of(of_days())
        forget_before(project.database, DAY.start)
        event.listen(project.database._engine, "after_cursor_execute", interrupt)
        with pytest.raises(KeyboardInterrupt):
            forgettable_results.forget(project.database, of_days(at_once=2), found)
        event.remove(project.database._engine, "after_cursor_execute", interrupt)
    capsys.readouterr()
    assert counts(loaded) == [NONE, NONE, WHOLE]
    assert stored(loaded, predictions, objects) == (4, 4)
    command(loaded, before=str(DAY), even_most=True)
    assert answer(capsys) == NOTHING | {"predictions": 2, "objects": 2, "rejections": 2}
    assert stored(loaded, predictions, objects, rejections) == (2, 2, 1)


class Input(io.StringIO):
    """Standard input: a file, or a terminal on which each question is answered after something has happened."""

    is_terminal, answer, happen = False, "n\n", None

    def isatty(self):
        return self.is_terminal

    def readline(self, *_):
        return self.answer if self.happen is None or self.happen() else ""


@pytest.mark.parametrize("listing", ["our table"], indirect=True)
def test_nothing_is_deleted_during_a_run_without_consent_or_without_a_terminal(loaded, monkeypatch, capsys):
    asked = ({"missing": True}, {"before": str(DAY), "even_most": True}, {"model": SECOND_VERSION})
    with open_project_database(loaded) as project:
        switch_version(project.database, "other", SECOND_VERSION, {})
        with project.database.write() as connection:
            connection.exec_driver_sql("UPDATE infer_models SET in_use_since = NULL WHERE name = 'other'")
        run_id = project.run_store.open_run(DAY, MODEL)
        for chosen in asked:
            with pytest.raises(DayHeld, match=f"run {run_id} of {DAY} is active"):
                command(loaded, **chosen)
        project.run_store.fail_run(run_id, 1, "")
    with pytest.raises(UsageError, match="9000-01-01 is in the future"):
        command(loaded, as_json=False, before="9000-01-01")
    given = Input()
    monkeypatch.setattr(sys, "stdin", given)
    for chosen in asked:
        with pytest.raises(UsageError, match="no terminal to ask on"):
            command(loaded, yes=False, **chosen)
    given.is_terminal = True
    capsys.readouterr()
    command(loaded, yes=False, as_json=False, before=str(DAY), even_most=True)
    said = capsys.readouterr().out
    what = "4 predictions with 4 objects, 2 rejections"
    assert f"days before {DAY}: {what} to be deleted for good" in said
    assert "nothing was deleted" in said
    assert counts(loaded) == [WHOLE, WHOLE, WHOLE]
    with open_project_database(loaded) as project:
        given.answer = "y\n"
        given.happen = partial(project.run_store.open_run, DAY, replace(MODEL, may_be_put_in_use=False))
        for chosen in asked[1:]:
            with pytest.raises(DayHeld):
                command(loaded, yes=False, **chosen)
            for run_id in project.run_store.living_runs():
                project.run_store.fail_run(run_id, 1, "")
    assert counts(loaded) == [WHOLE, WHOLE, WHOLE]
