"""`infer threshold` over a small database, as a person and as a script see it."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.base.domain import DetectedObject
from infer_app.base.errors import UsageError
from infer_app.cli.look.threshold_commands import COUNTED_IMAGES, remove_thresholds, set_thresholds, show_thresholds
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.schema import MAX_ID
from tests.conftest import DAY, MODEL
from tests.support.networks import built_colors
from tests.support.results import commit, predicted

LABELS = ["Cat", "a=b", "cat", "cat ", "wild cat"]
DETECTION = {"output": {"kind": "detection", "detection": {"head": "yolo", "min_score": 0.05}}}
BOX = (0.1, 0.1, 0.2, 0.2)


@pytest.fixture
def cats(database, register, monkeypatch, tmp_path):
    """A detector `cats` that is not in the models folder, and what it found on an image of today."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register("/1.jpg", at=datetime.now(UTC).replace(tzinfo=None, hour=0))
    register("/2.jpg", at=datetime(2026, 1, 1))
    RunStore(database).open_run(DAY, replace(MODEL, name="cats", manifest=DETECTION | {"labels": LABELS}))
    found = [("cat", 0.9), ("Cat", 0.8), ("cat ", 0.7), ("a=b", 0.6), ("wild cat", 0.5)]
    objects = tuple(DetectedObject(label, 0, score, *BOX) for label, score in found)
    commit(database, [*predicted("1", "2", objects=objects)])


def changed(capsys, name, *given, default=None):
    set_thresholds(name, given, default, True, None)
    return json.loads(capsys.readouterr().out)


def labels_of(capsys, name):
    capsys.readouterr()
    show_thresholds(name, True, None)
    return json.loads(capsys.readouterr().out)["labels"]


def test_thresholds_are_set_shown_and_removed(cats, capsys):
    assert changed(capsys, "cats", "cat=0.95", "a=b=1", default="0.75") == {
        "model": "cats",
        "default": 0.75,
        "labels": {"a=b": 1.0, "cat": 0.95},
        "stored_from": 0.05,
        "notes": [],
        "shown": {"days": 28, "before": 5, "after": 1},
    }
    (note,) = changed(capsys, "cats", "cat =0.04")["notes"]
    assert note == "cat  is below 0.05, the minimum score that the model stores"
    assert labels_of(capsys, "cats") == {"a=b": 1.0, "cat": 0.95, "cat ": 0.04}
    show_thresholds("cats", False, None)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["│", "(all", "others)", "│", "0.75", "│"] in shown
    remove_thresholds("cats", ["cat", "a=b"], False, None)
    assert "cats: cat  0.04, all other labels 0.75" in capsys.readouterr().out
    remove_thresholds("cats", [], False, None)
    assert "cats: all labels without a threshold" in capsys.readouterr().out


def test_many_images_are_counted_over_fewer_days(cats, capsys, register):
    now = datetime.now(UTC).replace(tzinfo=None)
    register(*(f"/earlier/{number}.jpg" for number in range(COUNTED_IMAGES)), at=now - timedelta(days=10))
    assert changed(capsys, "cats", default="0.85")["shown"] == {"days": 7, "before": 5, "after": 1}
    register(*(f"/today/{number}.jpg" for number in range(COUNTED_IMAGES)), at=now.replace(hour=0))
    assert changed(capsys, "cats", default="0.85")["shown"] is None


@pytest.mark.parametrize(
    ("given", "default", "message", "hint"),
    [
        ([], None, "no threshold is given", "--default 0.3"),
        (["cat"], None, "'cat' has no =", "cat=0.6"),
        (["=0.5"], None, "'=0.5' has no label", "--default"),
        (["cat=half"], None, "cat=half: 'half' is not a number", "from 0 to 1"),
        (["cat=1.01"], None, "cat=1.01: 1.01 is not between 0 and 1", "from 0 to 1"),
        (["cat=-0.1"], None, "-0.1 is not between 0 and 1", "from 0 to 1"),
        (["cat=nan"], None, "nan is not between 0 and 1", "from 0 to 1"),
        ([], "60%", "--default: '60%' is not a number", "from 0 to 1"),
        (["cat=0.5", "cat=0.6"], None, "'cat' is given twice", "one score"),
        (["CAT=0.5"], None, "cats has no label 'CAT'", "did you mean 'Cat' or 'cat' or 'cat '?"),
        (["cat=0.5=0.6"], None, "cats has no label 'cat=0.5'", "did you mean"),
        (["xyz=0.6"], None, "cats has no label 'xyz'", "there are 'Cat', 'a=b', 'cat', 'cat ', 'wild cat'"),
        ([f"{'x' * (MAX_ID + 1)}=0.6"], None, "has more than 512 characters", "--default"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(cats, capsys, given, default, message, hint):
    with pytest.raises(UsageError) as caught:
        set_thresholds("cats", given, default, False, None)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert labels_of(capsys, "cats") == {}


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("cat", "no model 'cat'", "did you mean 'cats'?"),
        ("Cats", "no model 'Cats'", "did you mean 'cats'?"),
        ("cats@01234567", "thresholds hold for all versions of cats", "without the id"),
        ("zebra", "no model 'zebra'", "there are 'cats'"),
    ],
)
def test_a_model_that_is_not_there_is_an_error_of_each_command(cats, name, message, hint):
    for call in (
        lambda: set_thresholds(name, [], "0.5", False, None),
        lambda: show_thresholds(name, False, None),
        lambda: remove_thresholds(name, [], False, None),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            call()
        assert hint in caught.value.hint


def test_a_threshold_that_is_not_there_is_not_removed(cats, capsys):
    with pytest.raises(UsageError, match="'cat' of cats has no threshold"):
        remove_thresholds("cats", ["cat"], False, None)
    changed(capsys, "cats", "Cat=0.5", default="0.1")
    for label in ("cat", ""):
        with pytest.raises(UsageError, match="has no threshold of its own") as caught:
            remove_thresholds("cats", ["Cat", label], False, None)
        assert "'Cat'" in caught.value.hint
    assert labels_of(capsys, "cats") == {"Cat": 0.5}


def build(folder, labels=None, **output):
    """Build `colors` with these labels."""
    if labels is not None:
        (folder / "labels.txt").write_text(labels)
    built_colors(folder, labels=labels and folder / "labels.txt", **output)


def test_labels_are_those_of_the_models_folder_where_it_is_here(cats, capsys, tmp_path):
    """A multi-label classifier that never ran: there are no rows."""
    build(tmp_path, "red\ngreen\nblue\n", activation="sigmoid", threshold=0.25)
    found = changed(capsys, "colors", "red=0.2")
    assert (found["labels"], found["stored_from"], found["shown"]["after"]) == ({"red": 0.2}, 0.25, 0)
    assert found["notes"] == ["red is below 0.25, the minimum score that the model stores"]
    for wrong, hint in (("Red", "did you mean 'red'?"), ("0", "")):
        with pytest.raises(UsageError, match=f"colors has no label '{wrong}'") as caught:
            changed(capsys, "colors", f"{wrong}=0.5")
        assert hint in caught.value.hint


def test_classes_without_labels_are_numbers(cats, capsys, tmp_path):
    build(tmp_path, activation="sigmoid")
    assert changed(capsys, "colors", "2=0.6")["labels"] == {"2": 0.6}
    for label in ("02", "red", "٢", "-1"):
        with pytest.raises(UsageError, match="colors has no label"):
            changed(capsys, "colors", f"{label}=0.5")


def test_a_model_that_gives_one_label_has_no_thresholds(cats, tmp_path):
    build(tmp_path, "red\ngreen\nblue\n")
    with pytest.raises(UsageError, match=r"colors has no thresholds: it gives one result per image \(classification\)"):
        set_thresholds("colors", [], "0.5", False, None)


def test_labels_of_a_version_that_is_not_here_are_known_from_its_last_run(cats, database, capsys, tmp_path):
    """The manifest of its run has them, also those that no row has."""
    build(tmp_path, "red\ngreen\nblue\n", activation="sigmoid")
    hostile = "\x1b[2J[red]"
    manifest = DETECTION | {"labels": ["red", hostile]}
    RunStore(database).open_run(DAY, replace(MODEL, name="colors", model_id="gone", manifest=manifest))
    assert changed(capsys, "colors", f"{hostile}=0.6", "blue=0.5")["labels"] == {"blue": 0.5, hostile: 0.6}
    show_thresholds("colors", False, None)
    assert "\x1b" not in capsys.readouterr().out
