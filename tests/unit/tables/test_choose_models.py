from types import SimpleNamespace

import pytest

from infer_app.artifact.specs import CropSpec
from infer_app.base.errors import UsageError
from infer_app.base.settings.load import load_settings
from infer_app.tables.choose_models import Group, group_by_pixels, with_detectors
from tests.support.networks import built_colors


def model(name, recipe="a", of=None, model_id=None):
    crop = CropSpec(of, 0.2) if of else None
    return SimpleNamespace(
        manifest=SimpleNamespace(
            name=name, model_id=model_id or f"id of {name}", recipe=recipe, preprocess=None, files={}, crop=crop
        )
    )


def names(groups):
    return [group.names for group in groups]


@pytest.mark.parametrize(
    ("models", "groups"),
    [
        ([model("d"), model("c"), model("s", "b", "d")], [["d", "c", "s"]]),
        ([model("d"), model("c", "b"), model("s", "b", "d"), model("t", "c", "d")], [["d", "s", "t"], ["c"]]),
        ([model("d"), model("e"), model("s", of="d"), model("t", of="e")], [["d", "s"], ["e", "t"]]),
        ([model("c"), model("d"), model("e"), model("t", of="e")], [["c", "d", "e", "t"]]),
        ([model("d"), model("s", of="d", model_id="5"), model("t", of="d", model_id="5")], [["d", "s"], ["d", "t"]]),
    ],
)
def test_a_second_network_is_in_the_group_of_its_detector_which_is_the_only_one_there(models, groups):
    assert names(group_by_pixels(models)) == groups


def test_a_group_is_split_into_single_models_and_second_networks_with_their_detector():
    (group,) = group_by_pixels([model("d"), model("c"), model("s", of="d"), model("t", of="d")])
    assert (group.may_split, names(group.split())) == (True, [["d"], ["c"], ["d", "s"], ["d", "t"]])
    assert not any(part.may_split for part in group.split())
    assert not Group((model("c"),)).may_split


def test_a_second_network_takes_no_objects_of_a_version_that_is_only_tried(tmp_path):
    """Its results would count on no day: each run would predict them again."""
    for size in (16, 32):
        built_colors(tmp_path, name="d", size=size)
    (tmp_path / "infer.toml").touch()
    loaded = load_settings(tmp_path / "infer.toml", {"run": {"models": ["d@1", "s"]}})
    with pytest.raises(UsageError, match="s takes the objects of the version in use, and none of d is"):
        with_detectors(loaded, [model("d"), model("s", of="d")])
