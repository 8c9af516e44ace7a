import json
from dataclasses import replace
from itertools import product

import pytest

from infer_app.artifact.manifest import Manifest, format_labels, parse_labels
from infer_app.artifact.recipe import CropRule, Recipe
from infer_app.artifact.specs import CropSpec, DetectionSpec, OutputSpec
from infer_app.base.domain import DetectedObject
from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from tests.support.networks import built

OLD_ID = "65cc986f7f375452"  # as the program computed it when a size was a number


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return built(tmp_path_factory.mktemp("model")).manifest


def changed(manifest, **changes):
    return json.dumps(json.loads(manifest.to_json()) | changes)


def test_json_round_trip_changes_nothing(manifest):
    assert Manifest.from_json(manifest.to_json(), "here") == manifest
    assert manifest.to_json().splitlines()[:2] == ["{", '  "name": "colours",']  # it is for people too


def test_a_square_size_and_defaults_that_are_left_out_keep_the_id(manifest):
    recipe = {"kind": "resize-crop", "size": 224, "resize": 256, "crop": None, "interpolation": "bilinear"}
    recipe |= {"exif": "apply", "decode": "exact"}
    digests = manifest.files | {"labels.txt": "aa"}
    old = {"recipe": recipe, "files": digests, "source_sha256": "source", "model_id": OLD_ID}
    old |= {"mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0]}
    data = json.loads(changed(manifest, **old))
    read = Manifest.from_json(json.dumps(data), "here")
    assert (read.recipe.size, read.recipe.resize) == (Size(224, 224), Size(256, 256))
    assert json.loads(read.to_json())["recipe"] == recipe


def test_a_missing_field_is_named(manifest):
    data = json.loads(manifest.to_json())
    del data["recipe"], data["golden"]
    with pytest.raises(ModelError, match=r"models/pets: missing golden, recipe") as caught:
        Manifest.from_json(json.dumps(data), "models/pets")
    assert "infer model build" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[]", "not a JSON object"), ('{"format": 2}', "format 2, this program reads 1")],
)
def test_what_is_no_manifest_is_refused(text, message):
    with pytest.raises(ModelError, match=message):
        Manifest.from_json(text, "here")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "red"}, "unknown colour"),
        ({"mean": [0.1, 0.2]}, "not three numbers"),
        ({"mean": "grey"}, "could not convert string to float"),
        ({"recipe": {"kind": "stretch"}}, "size"),
        ({"recipe": {"kind": "stretch", "size": "640*480"}}, "is not a size"),
        ({"output": {"kind": "poem"}}, "unknown output 'poem'"),
        ({"crop": {"of": "animals", "min_score": 2, "rule": {}}}, "min_score 2 is not between"),
        ({"crop": {"of": "animals"}}, "'rule'"),
        ({"crop": {"of": "animals", "min_score": 0.2, "rule": {}}}, "changed since it was built"),
        ({"source_kind": "jax"}, "unknown source_kind"),
        *(({"files": {f"{up}/etc/passwd": "0"}}, "outside the artifact") for up in ("../..", "")),
        ({"files": {}}, "no checksum of"),
        ({"variants": {"cpu-x": "fast"}}, "variant cpu-x is not an object"),
        ({"variants": {"cpu-x": {"parity": None}}}, "parity of variant cpu-x is not an object"),
        ({"variants": {"cpu-x": {"parity": {"cosine": "x"}}}}, "parity of variant cpu-x has a value that is not"),
        ({"variants": {"cpu-x": {"tolerance": {"any": 1}}}}, "unexpected keyword argument 'any'"),
        ({"std": [0.9, 0.9, 0.9]}, "changed since it was built"),
        ({"model_id": "0" * 16}, "changed since it was built"),
    ],
)
def test_a_changed_value_is_refused(manifest, changes, message):
    with pytest.raises(ModelError, match=message):
        Manifest.from_json(changed(manifest, **changes), "here")


def test_variants_name_and_dates_are_not_part_of_the_id(manifest):
    other = replace(manifest, name="other", created_at="2030-01-01", variants={"x": {"ms": 1}}, built_with={})
    assert other.expected_id() == manifest.model_id


RECIPE_8 = Recipe("stretch", 8)
CROP = CropSpec("animals", 0.2)


def id_of(manifest, **changes):
    plain = {"source_sha256": "source", "recipe": RECIPE_8, "output": OutputSpec(), "files": {"labels.txt": "aa"}}
    plain |= {"input": "float-nchw", "mean": (0.0,) * 3, "std": (1.0,) * 3}
    return replace(manifest, **plain | changes).expected_id()


CHANGES = [
    {"source_sha256": "other source"},
    {"recipe": replace(RECIPE_8, exif="ignore")},
    {"recipe": replace(RECIPE_8, decode="scaled")},
    {"recipe": Recipe("stretch", 9)},
    {"recipe": Recipe("stretch", "8x9")},
    {"mean": (0.1, 0.0, 0.0)},
    {"std": (0.5, 1.0, 1.0)},
    {"input": "uint8-nhwc"},
    {"output": OutputSpec(top_k=4)},
    {"output": OutputSpec("detection", detection=DetectionSpec(min_score=0.1))},
    {"output_name": "logits"},
    {"files": {"labels.txt": "bb"}},
    {"files": {}},
    {"files": {"labels.txt": "aa", "head.py": "bb"}},
    {"preprocess": "a:b"},
    {"preprocess": "a:b", "files": {"labels.txt": "aa", "preprocess.py": "cc"}},
]
CROP_CHANGES = [
    {"crop": CropSpec("birds", 0.2)},
    {"crop": CropSpec("animals", 0.3)},
    {"crop": CropSpec("animals", 0.2, ("bird",))},
    *(
        {"crop": replace(CROP, rule=rule)}
        for rule in (
            CropRule("square"),
            CropRule(margin=0.1),
            CropRule(margin_px=30),
            CropRule(least_px=224),
            CropRule(rounding="nearest"),
        )
    ),
    {"files": {"labels.txt": "aa", "crop.py": "bb"}},
    {"crop": None},
]


@pytest.mark.parametrize(("crop", "changes"), [*product([None], CHANGES), *product([CROP], CROP_CHANGES)], ids=str)
def test_all_that_defines_the_predictions_or_decides_the_crops_is_part_of_the_id(manifest, crop, changes):
    assert id_of(manifest, **{"crop": crop} | changes) != id_of(manifest, crop=crop)


def test_what_a_second_network_is_made_of_is_read_back(manifest):
    crop = CropSpec("animals", 0.2, ("mammal", "bird", "mammal"), CropRule("square-pad", 0.1, 30, 224, "nearest"))
    second = replace(manifest, crop=crop)
    second = replace(second, model_id=second.expected_id())
    assert Manifest.from_json(second.to_json(), "here") == second
    assert crop.labels == ("bird", "mammal")  # in any order they are the same model


def test_a_gate_takes_objects_of_its_labels_from_its_score_on():
    found = [
        DetectedObject(label, 0, score, 0, 0, 1, 1) for label, score in (("bird", 0.2), ("bird", 0.19), ("car", 1))
    ]
    assert [CropSpec("animals", 0.2).takes(one) for one in found] == [True, False, True]
    assert [CropSpec("animals", 0.2, ("bird",)).takes(one) for one in found] == [True, False, False]


def test_ids_stay_the_same_over_versions(manifest):
    assert id_of(manifest) == "a34d459af074b02e"
    older = {"source_sha256": "ab", "recipe": Recipe("crop-resize", 224, crop=0.875), "files": {}}
    assert id_of(manifest, **older) == "093977d220e08f97"


def test_every_line_is_a_label_whatever_it_says():
    data = "<b>kot</b>\nRobert'); DROP TABLE infer_images;--\nżółw, zwykły\n".encode()
    assert parse_labels(data, "labels.txt") == ("<b>kot</b>", "Robert'); DROP TABLE infer_images;--", "żółw, zwykły")


def test_line_ends_and_marks_do_not_change_labels():
    for data in (b"cat\ndog\n", b"cat\ndog", b"cat\r\ndog\r\n", b"\xef\xbb\xbfcat\n dog\t\n"):
        assert format_labels(parse_labels(data, "labels.txt")) == b"cat\ndog\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"cat\n  \ndog\n", "line 2 is blank"), (b"", "line 1 is blank"), (b"caf\xe9\n", "not UTF-8"), (b"c\0\n", "NUL")],
)
def test_what_can_not_be_a_label_is_refused_with_its_place(data, message):
    with pytest.raises(ModelError, match=message) as caught:
        parse_labels(data, "pets/labels.txt")
    assert caught.value.message.startswith("pets/labels.txt: ")
    assert caught.value.hint
