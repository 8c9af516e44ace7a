"""`infer threshold` over a small database, as a person and as a script see it."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from infer_app.cli.look import threshold_commands as command
from infer_app.cli.look.threshold_commands import parse_thresholds, remove_thresholds, set_thresholds, show_thresholds
from infer_app.database.results.runs import RunStore
from infer_app.database.results.schema import MAX_ID
from infer_app.domain import DetectedObject
from infer_app.errors import UsageError
from infer_app.models.artifact.specs import OutputSpec
from tests.conftest import DAY, MODEL
from tests.support.networks import built_colors
from tests.support.results import commit, predicted

DETECTION = {"output": {"kind": "detection", "detection": {"head": "yolo", "min_score": 0.05}}}
BOX = (0.1, 0.1, 0.2, 0.2)


@pytest.fixture
def cats(database, register, monkeypatch, tmp_path):
    """A detector `cats` that is not in the models folder, and what it found on an image of today."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    register("/1.jpg", at=datetime.now(UTC).replace(tzinfo=None, hour=0))
    register("/2.jpg", at=datetime(2026, 1, 1))
    RunStore(database).open_run(DAY, replace(MODEL, name="cats", manifest=DETECTION))
    found = [("cat", 0.9), ("Cat", 0.8), ("cat ", 0.7), ("a=b", 0.6), ("wild cat", 0.5)]
    objects = tuple(DetectedObject(label, 0, score, *BOX) for label, score in found)
    commit(database, [*predicted("1", "2", objects=objects)])


def changed(capsys, name, *given, default=None):
    set_thresholds(name, given, default, True, None)
    return json.loads(capsys.readouterr().out)


def test_thresholds_are_set_shown_and_removed(cats, capsys):
    assert changed(capsys, "cats", "cat=0.95", "a=b=1", default="0.75") == {
        "model": "cats",
        "default": 0.75,
        "labels": {"a=b": 1.0, "cat": 0.95},
        "stored_from": 0.05,
        "notes": [],
        "shown": {"days": 28, "before": 5, "after": 1},
    }
    set_thresholds("cats", ["cat =0.7"], None, False, None)
    assert capsys.readouterr().out.splitlines() == [
        "cats: a=b 1.0, cat 0.95, cat  0.7, all other labels 0.75",
        "last 28 days: 2 objects shown, 1 before",
    ]
    show_thresholds("cats", True, None)
    assert json.loads(capsys.readouterr().out)["labels"] == {"a=b": 1.0, "cat": 0.95, "cat ": 0.7}
    show_thresholds("cats", False, None)
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["│", "(all", "others)", "│", "0.75", "│"] in shown
    remove_thresholds("cats", ["cat", "a=b"], False, None)
    assert "cats: cat  0.7, all other labels 0.75" in capsys.readouterr().out
    remove_thresholds("cats", [], False, None)
    assert capsys.readouterr().out.splitlines() == [
        "cats: all labels without a threshold",
        "last 28 days: 5 objects shown, 3 before",
    ]


def test_a_threshold_below_what_is_stored_is_set_and_said(cats, capsys):
    (note,) = changed(capsys, "cats", "cat=0.04", default="0.05")["notes"]
    assert note == "cat is below 0.05, the minimum score that the model stores"
    set_thresholds("cats", [], "0", False, None)
    assert "the default, cat are below 0.05" in capsys.readouterr().out


def test_many_images_are_counted_over_fewer_days(cats, capsys, register, monkeypatch):
    monkeypatch.setattr(command, "COUNTED_IMAGES", 1)
    register("/3.jpg", at=datetime.fromtimestamp(datetime.now().timestamp() - 10 * 86400, UTC).replace(tzinfo=None))
    assert changed(capsys, "cats", default="0.85")["shown"] == {"days": 7, "before": 5, "after": 1}
    monkeypatch.setattr(command, "COUNTED_IMAGES", -1)
    assert changed(capsys, "cats", default="0.85")["shown"] is None
    set_thresholds("cats", [], "0.1", False, None)
    assert "how many objects are shown is not counted: today has more than -1 images" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "default", "message", "hint"),
    [
        ([], None, "no threshold is given", "--default 0.3"),
        (["cat"], None, "'cat' has no =", "cat=0.6"),
        (["=0.5"], None, "'=0.5' has no label", "--default"),
        (["cat=half"], None, "cat=half: 'half' is not a number", "from 0 to 1"),
        (["cat="], None, "cat=: '' is not a number", "from 0 to 1"),
        (["cat=1.01"], None, "cat=1.01: 1.01 is not between 0 and 1", "from 0 to 1"),
        (["cat=-0.1"], None, "-0.1 is not between 0 and 1", "from 0 to 1"),
        (["cat=nan"], None, "nan is not between 0 and 1", "from 0 to 1"),
        (["cat=inf"], None, "inf is not between 0 and 1", "from 0 to 1"),
        ([], "60%", "--default: '60%' is not a number", "from 0 to 1"),
        ([], "NaN", "--default: NaN is not between 0 and 1", "from 0 to 1"),
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
    show_thresholds("cats", True, None)
    assert json.loads(capsys.readouterr().out)["labels"] == {}


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
    with pytest.raises(UsageError, match="'cat' of cats has no threshold") as caught:
        remove_thresholds("cats", ["cat"], False, None)
    assert caught.value.hint == "`infer threshold show NAME` lists them"
    changed(capsys, "cats", "Cat=0.5", default="0.1")
    for label in ("cat", ""):
        with pytest.raises(UsageError, match="has no threshold of its own") as caught:
            remove_thresholds("cats", ["Cat", label], False, None)
        assert "'Cat'" in caught.value.hint
    show_thresholds("cats", True, None)
    assert json.loads(capsys.readouterr().out)["labels"] == {"Cat": 0.5}


def test_labels_are_those_of_the_models_folder_where_it_is_here(cats, capsys, tmp_path):
    """A multi-label classifier that never ran: there are no rows."""
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    several = OutputSpec(activation="sigmoid", threshold=0.25)
    built_colors(tmp_path, output=several, labels=tmp_path / "labels.txt")
    found = changed(capsys, "colors", "red=0.2")
    assert (found["labels"], found["stored_from"], found["shown"]["after"]) == ({"red": 0.2}, 0.25, 0)
    assert found["notes"] == ["red is below 0.25, the minimum score that the model stores"]
    set_thresholds("colors", ["red=0.3"], None, False, None)
    assert "last 28 days: 0 labels shown, 0 before" in capsys.readouterr().out
    with pytest.raises(UsageError, match="colors has no label 'Red'") as caught:
        changed(capsys, "colors", "Red=0.5")
    assert caught.value.hint == "did you mean 'red'?"
    with pytest.raises(UsageError, match="colors has no label '0'"):
        changed(capsys, "colors", "0=0.5")


def test_labels_of_a_version_that_is_not_here_are_known_from_its_last_run(cats, database, capsys, tmp_path):
    """The manifest of its run has them, also those that no row has."""
    (tmp_path / "labels.txt").write_text("red\ngreen\nblue\n")
    built_colors(tmp_path, output=OutputSpec(activation="sigmoid"), labels=tmp_path / "labels.txt")
    manifest = DETECTION | {"labels": ["red", "fox"]}
    RunStore(database).open_run(DAY, replace(MODEL, name="colors", model_id="gone", manifest=manifest))
    assert changed(capsys, "colors", "fox=0.6", "blue=0.5")["labels"] == {"blue": 0.5, "fox": 0.6}
    with pytest.raises(UsageError, match="colors has no label 'cow'"):
        changed(capsys, "colors", "cow=0.5")


def test_classes_without_labels_are_numbers(cats, capsys, tmp_path):
    built_colors(tmp_path, output=OutputSpec(activation="sigmoid"), labels=None)
    assert changed(capsys, "colors", "2=0.6")["labels"] == {"2": 0.6}
    for label in ("02", "red", "٢", "-1"):
        with pytest.raises(UsageError, match="colors has no label"):
            changed(capsys, "colors", f"{label}=0.5")


def test_a_model_that_gives_one_label_has_no_thresholds(cats, tmp_path):
    built_colors(tmp_path)
    with pytest.raises(UsageError, match=r"colors has no thresholds: it gives one result per image \(classification\)"):
        set_thresholds("colors", [], "0.5", False, None)


def test_a_hostile_label_is_shown_and_not_obeyed(cats, database, capsys):
    commit(database, predicted("1", label="\x1b[2J[red]"))
    set_thresholds("cats", ["\x1b[2J[red]=0.5"], None, False, None)
    show_thresholds("cats", False, None)
    assert "\x1b" not in capsys.readouterr().out


def test_a_label_may_have_an_equals_sign():
    assert parse_thresholds(["a=b=0.5", "==0.25", "c=1"], None) == {"a=b": 0.5, "=": 0.25, "c": 1.0}
