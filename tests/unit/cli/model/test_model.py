import pytest

from infer_app.cli.commands.model_commands import BuildOptions
from infer_app.cli.model.build import _normalisation, _taken_by_default, make_recipe
from infer_app.errors import UsageError
from infer_app.models.build.build_model import BuildRequest
from infer_app.recipe import Recipe, Size
from infer_app.settings.removed import REMOVED


def recipe(**options: object) -> Recipe:
    return make_recipe(BuildOptions(**{"source": "net.ts", "name": "net", "recipe": "stretch"} | options))


def test_decoding_is_exact_or_scaled():
    assert recipe() == Recipe("stretch", 224)
    assert recipe(decode="scaled") == Recipe("stretch", 224, decode="scaled")
    with pytest.raises(UsageError, match="--decode gpu was removed") as caught:
        recipe(decode="gpu")
    assert caught.value.hint == REMOVED["--decode gpu"]
    with pytest.raises(UsageError, match="--decode 'fast' is not known"):
        recipe(decode="fast")


def test_channels_are_rgb_or_bgr():
    assert recipe(channels="bgr") == Recipe("stretch", 224, channels="bgr")
    with pytest.raises(UsageError, match="--channels 'grb' is not known"):
        recipe(channels="grb")
    with pytest.raises(UsageError, match="--channels bgr does not go with --preprocess") as caught:
        recipe(channels="bgr", preprocess="steps:prepare")
    assert caught.value.hint.startswith("leave --channels out")


def test_imagenets_mean_and_std_come_in_the_order_of_the_channels():
    rgb, bgr = (_normalisation(BuildOptions(source="a", name="a", channels=channels)) for channels in ("rgb", "bgr"))
    assert rgb == {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    assert bgr == {"mean": (0.406, 0.456, 0.485), "std": (0.225, 0.224, 0.229)}
    given = BuildOptions(source="a", name="a", channels="bgr", mean="1,2,3", std="4,5,6")
    assert _normalisation(given) == {"mean": (1, 2, 3), "std": (4, 5, 6)}


def test_a_rectangle_is_resized_by_the_same_share_in_both_directions():
    assert recipe(recipe="resize-crop", size=Size(640, 480)).resize == Size(731, 548)
    assert recipe(recipe="resize-crop", size=Size(640, 480), crop_pct=1.0).resize == Size(640, 480)
    assert recipe(recipe="resize-crop", size=Size(640, 480), resize=Size.square(600)).resize == Size.square(600)
    assert recipe(recipe="resize-crop").resize == Size.square(256)


@pytest.mark.parametrize(
    ("options", "resize"),
    [
        ({}, None),
        ({"crop_pct": 0.9}, Size.square(248)),
        ({"resize": Size.square(256)}, Size.square(256)),
        ({"resize": Size(256, 224)}, Size(256, 224)),
        ({"crop_pct": 1.0}, None),
        ({"resize": Size.square(224)}, None),
        ({"size": Size(640, 480), "crop_pct": 0.875}, Size(731, 548)),
    ],
)
def test_a_stretched_picture_is_cropped_only_if_that_is_said(options: dict[str, object], resize: Size | None):
    assert recipe(**options).resize == resize


@pytest.mark.parametrize("resize", [Size.square(200), Size.square(600), Size(640, 479)])
def test_a_crop_that_is_larger_than_the_stretched_picture_is_refused(resize: Size):
    with pytest.raises(UsageError, match=f"crops 640x480 out of {resize}, which is smaller") as caught:
        recipe(size=Size(640, 480), resize=resize)
    assert "--resize WIDTHxHEIGHT" in caught.value.hint


def test_the_rounding_of_a_crop_needs_a_crop():
    assert recipe(recipe="resize-crop", crop_rounding="down").crop_rounding == "down"
    assert recipe(crop_pct=0.9, crop_rounding="down").crop_rounding == "down"
    with pytest.raises(UsageError, match="--crop-rounding 'up' is not known"):
        recipe(recipe="resize-crop", crop_rounding="up")
    for others in ({}, {"recipe": "crop-resize"}, {"crop_pct": 1.0}):
        with pytest.raises(UsageError, match="nothing is resized and then cropped") as caught:
            recipe(crop_rounding="down", **others)
        assert "--recipe resize-crop" in caught.value.hint


def test_flags_of_another_recipe_are_refused():
    with pytest.raises(UsageError, match="--resize and --crop-pct do not belong to --recipe crop-resize"):
        recipe(recipe="crop-resize", resize=Size.square(256))
    with pytest.raises(UsageError, match="--crop belongs to --recipe crop-resize"):
        recipe(crop=0.9)
    with pytest.raises(UsageError, match="mean the same"):
        recipe(resize=Size.square(256), crop_pct=0.9)


def test_a_square_crop_does_not_fit_a_rectangle():
    with pytest.raises(UsageError, match="the model's input is 640x480") as caught:
        recipe(recipe="crop-resize", size=Size(640, 480))
    assert "--recipe resize-crop, stretch and letterbox" in caught.value.hint


def test_a_users_own_function_gets_whole_pictures():
    with pytest.raises(UsageError, match="--decode scaled does not go with --preprocess") as caught:
        recipe(decode="scaled", preprocess="steps:prepare")
    assert caught.value.hint == "leave --decode out"


def test_what_was_taken_by_default_names_the_size():
    request = BuildRequest("net.onnx", "net", Recipe("letterbox", Size(640, 480)))
    said = {"mean", "std", "labels"}
    assert _taken_by_default(request, said) == ["recipe letterbox", "size 640x480"]
    assert _taken_by_default(request, said | {"recipe", "size"}) == []
