"""`infer labels` over a small database, as a person and as a script see it."""

import json
from dataclasses import replace

import pytest

from infer_app.base.errors import UsageError
from infer_app.cli.look.label_commands import clear_labels, set_labels, show_labels
from infer_app.cli.look.threshold_commands import set_thresholds
from infer_app.tables.label_groups import read_label_groups
from infer_app.tables.results.schema import MAX_ID
from tests.support.second_networks import DETECTOR, SECOND, SPECIES, VECTORS, StoredModel

TAXONOMY = "label,parent\nlion,felidae\ntiger,felidae\nfelidae,carnivora\ncarnivora,\n"
CAT = ["carnivora", "felidae"]


@pytest.fixture
def write(database, monkeypatch, tmp_path):
    """write("label,parent\\n…") is a file; the detector `animals` and `species` on it have run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "infer.toml").touch()
    for model in (DETECTOR, SECOND):
        StoredModel(database, model)

    def write_file(content, name="taxa.csv"):
        content = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(content)
        return tmp_path / name

    return write_file


def labels_of(capsys, name="species"):
    capsys.readouterr()
    show_labels(name, True, None)
    return json.loads(capsys.readouterr().out)


def test_groups_are_set_shown_replaced_and_cleared(write, capsys, caplog):
    set_labels("species", write(TAXONOMY), None, None)
    assert capsys.readouterr().out == "species: 2 labels in 2 groups, all labels allowed\n"
    assert labels_of(capsys) == {"model": "species", "groups": {"lion": CAT, "tiger": CAT}, "not_allowed": []}
    set_labels("species", write(TAXONOMY), write("lion\n\ndog\n", "only.txt"), None)
    before = "before: 2 labels in 2 groups, all labels allowed"
    assert capsys.readouterr().out == f"species: 1 label in 2 groups, 1 label not allowed; {before}\n"
    show_labels("species", False, None)
    shown = capsys.readouterr().out
    assert ["│", "lion", "│", "carnivora", ">", "felidae", "│"] in [line.split() for line in shown.splitlines()]
    assert shown.endswith("species: 1 label in 2 groups, 1 label not allowed\n")
    assert "tiger" not in shown
    set_labels("species", None, write("dog\r\n", "only.txt"), None)
    assert labels_of(capsys) == {"model": "species", "groups": {}, "not_allowed": ["lion", "tiger"]}
    clear_labels("species", None)
    assert capsys.readouterr().out == "species: no groups, all labels allowed\n"
    assert labels_of(capsys) == {"model": "species", "groups": {}, "not_allowed": []}
    assert caplog.messages == []


def test_labels_that_the_model_has_not_are_counted_and_kept_for_a_later_version(write, capsys, caplog):
    taxa = write(
        "\ufefflabel,note,parent\n lion ,a cat, felidae\nlynx,,felidae\n" + "".join(f"{n},,n\n" for n in range(9))
    )
    set_labels("species", taxa, write("lion\nwolf\n", "only.txt"), None)
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "10 labels that species doesn't have: 0, 1, 2, 3, 4, …",
        "1 label that species doesn't have: wolf",
    ]
    found = labels_of(capsys)
    assert (found["groups"], len(found["not_allowed"])) == ({"lion": ["felidae"]}, 12)


def test_classes_without_labels_are_numbers(write, database, capsys, caplog):
    numbered = SPECIES | {"labels": [], "num_outputs": 3}
    StoredModel(database, replace(SECOND, name="numbers", model_id="9" * 16, manifest=numbered))
    set_labels("numbers", write("label,parent\n0,even\n2,even\n"), write("1\n2\n", "only.txt"), None)
    assert labels_of(capsys, "numbers") == {"model": "numbers", "groups": {"2": ["even"]}, "not_allowed": ["0"]}
    assert caplog.messages == []


def test_a_label_of_the_model_that_is_too_long_to_be_kept_must_be_allowed(write, database):
    """Databases with limits would refuse its row; of an allowed label without groups there is none."""
    long = "x" * (MAX_ID + 1)
    labels = SPECIES | {"labels": ["lion", long]}
    StoredModel(database, replace(SECOND, name="long", model_id="9" * 16, manifest=labels))
    with pytest.raises(UsageError, match="more than 512 characters"):
        set_labels("long", None, write("lion\n", "only.txt"), None)
    set_labels("long", None, write(f"{long}\n", "only.txt"), None)
    assert read_label_groups(database, "long") == {"lion": None}


def test_thresholds_of_a_second_network_are_by_label_or_group(write, capsys):
    set_labels("species", write(TAXONOMY), None, None)
    capsys.readouterr()
    set_thresholds("species", ["lion=0.5", "felidae=0.75"], "0.65", True, None)
    found = json.loads(capsys.readouterr().out)
    assert (found["default"], found["labels"]) == (0.65, {"felidae": 0.75, "lion": 0.5})
    with pytest.raises(UsageError, match="species has no label 'canidae'"):
        set_thresholds("species", ["canidae=0.5"], None, True, None)


@pytest.mark.parametrize(
    ("taxonomy", "only", "message", "hint"),
    [
        (None, None, "no file is given", "--taxonomy FILE"),
        ("lion,felidae\n", None, "taxa.csv has no column label", "label and parent"),
        ("label\nlion\n", None, "taxa.csv has no column parent", "label and parent"),
        ("", None, "taxa.csv has no column label", "label and parent"),
        (b"label,parent\n\xff,x\n", None, "taxa.csv: not UTF-8", "UTF-8"),
        ("label,parent\n,felidae\n", None, "line 2: a label is empty", "label and parent"),
        ("label,parent\nlion,f\nlion,g\n", None, "line 3: 'lion' has two parents, 'f' and 'g'", ""),
        ("label,parent\na,b\nb,c\nc,b\n", None, "'b' > 'c' > 'b' is a cycle", "no group"),
        ("label,parent\na,a\n", None, "'a' > 'a' is a cycle", "no group"),
        (f"label,parent\na,{'x' * (MAX_ID + 1)}\n", None, "has more than 512 characters", ""),
        ("label,parent\na,b\0\n", None, "has a NUL character", "UTF-16"),
        (TAXONOMY, "\n \n", "only.txt has no labels", "one allowed label a line"),
        (TAXONOMY, "Lion\n", "only.txt has no label of species", "infer model show species"),
        (TAXONOMY, "lion\nfelidae\n", "'felidae' is a group, not a label of species", "list the labels in it"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(write, database, taxonomy, only, message, hint):
    set_labels("species", write(TAXONOMY), None, None)
    before = read_label_groups(database, "species")
    taxa = None if taxonomy is None else write(taxonomy)
    with pytest.raises(UsageError) as caught:
        set_labels("species", taxa, None if only is None else write(only, "only.txt"), None)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert read_label_groups(database, "species") == before


def test_a_model_without_labels_of_objects_has_no_groups(write, database, tmp_path):
    StoredModel(database, replace(SECOND, name="vectors", model_id="9" * 16, manifest=VECTORS))
    for call in (
        lambda name: set_labels(name, write(TAXONOMY), None, None),
        lambda name: show_labels(name, False, None),
        lambda name: clear_labels(name, None),
    ):
        for name, why in (
            ("animals", "animals is no second network"),
            ("vectors", "vectors is a second network that gives no labels"),
            ("specis", "no model 'specis'"),
        ):
            with pytest.raises(UsageError, match=why):
                call(name)
    with pytest.raises(UsageError, match="can't be read: No such file"):
        set_labels("species", tmp_path / "none.csv", None, None)
