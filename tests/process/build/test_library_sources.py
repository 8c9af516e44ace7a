"""Networks of timm, torchvision and Hugging Face: pixels and answers as their own libraries give them."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from infer_app.artifact.model_file import describe_values
from infer_app.artifact.specs import InputSpec
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.size import Size
from infer_app.build.network.model_source import find_source
from infer_app.predict.images.transform.to_pixels import transform
from tests.support.library_networks import save_hugging_face, save_timm, save_weights

SIZES = [(500, 375), (375, 500), (101, 77), (77, 101), (64, 64), (33, 90), (640, 359), (223, 222)]
SQUARE, SHORTER = {"size": {"height": 32, "width": 32}}, {"size": {"shortest_edge": 37}}
CROP = {"crop_size": {"height": 32, "width": 32}}
CROPPED = {"do_center_crop": True, "crop_size": {"height": 24, "width": 24}}
TIMM = {"input_size": (3, 96, 96)}


def hf(processor, **steps):
    return lambda folder: (str(save_hugging_face(folder / "net", "ResNet", processor, **steps)), None)


def timm_folder(**config):
    return lambda folder: (str(save_timm(folder / "net", "test_resnet", **{**TIMM, **config})), None)


def torchvision_weights(name):
    def make(folder):
        models = pytest.importorskip("torchvision.models")
        file = models.get_model_weights(name).DEFAULT.url.rpartition("/")[2]
        return f"torchvision:{name}", save_weights(folder / file, models.get_model(name, num_classes=5))

    return make


def timm_name(folder):
    module = pytest.importorskip("timm").create_model("test_efficientnet", num_classes=5)
    return "timm:test_efficientnet", save_weights(folder / "weights.pt", module)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(hf("ViT", **SQUARE), id="hf-vit"),
        pytest.param(hf("ViT", size={"height": 24, "width": 40}), id="hf-rectangle"),
        pytest.param(hf("ViT", **SQUARE, rescale_factor=1 / 200), id="hf-rescale"),
        pytest.param(hf("ConvNext", size={"shortest_edge": 32}), id="hf-resnet"),
        pytest.param(hf("ConvNext", size={"shortest_edge": 384}), id="hf-large-convnext"),
        pytest.param(hf("ConvNext", size={"shortest_edge": 32}, **CROPPED), id="hf-cropped-convnext"),
        pytest.param(hf("Bit", **SHORTER, **CROP), id="hf-bit"),
        pytest.param(hf("CLIP", size={"shortest_edge": 32}, crop_size={"height": 24, "width": 31}), id="hf-clip"),
        pytest.param(hf("DeiT", size={"height": 37, "width": 37}, **CROP), id="hf-deit"),
        pytest.param(hf("MobileNetV2", **SHORTER, **CROP), id="hf-bilinear"),
        pytest.param(hf("MobileViT", **SHORTER, **CROP), id="hf-bgr"),
        pytest.param(timm_folder(crop_mode="center", crop_pct=0.95, interpolation="bicubic"), id="timm-center"),
        pytest.param(timm_folder(crop_mode="squash", crop_pct=1.0, interpolation="bilinear"), id="timm-squash"),
        pytest.param(timm_folder(crop_mode="squash", crop_pct=0.9), id="timm-squash-crop"),
        pytest.param(timm_folder(input_size=(3, 64, 96), interpolation="bicubic"), id="timm-rectangle"),
        pytest.param(timm_folder(input_size=(3, 96, 64), crop_mode="squash", crop_pct=0.9), id="timm-squash-rectangle"),
        pytest.param(timm_name, id="timm-name"),
        pytest.param(torchvision_weights("mobilenet_v3_small"), id="torchvision"),
    ],
)
def test_pixels_are_those_of_the_librarys_own_transform(tmp_path, make):
    name, weights = make(tmp_path)
    source = find_source(name, weights)
    taken = {option: fact.value for option, fact in source.facts(None).taken({}).items() if option != "labels"}
    described = describe_values({"source": name, **taken})
    recipe, spec = described.make_recipe(), described.make_input()
    mean, std = (torch.tensor(three)[:, None, None] for three in (spec.mean, spec.std))
    prepare = source.network.make_transform()
    random = np.random.default_rng(0)
    for size in SIZES:
        blocks = random.integers(0, 256, (size[1] // 8 + 1, size[0] // 8 + 1, 3), dtype=np.uint8)
        picture = Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC)
        theirs = ((prepare(picture) * std + mean) * 255).round().permute(1, 2, 0).numpy()
        ours = transform(np.array(picture), recipe)
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() <= 2, size


# Refusals: what the user has to say, and whether it is enough then


def change(file, values):
    """Replace entries of a JSON file, which is made if it is missing."""
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, **values}))


def edit(values, file="preprocessor_config.json", processor="Bit", **steps):
    """A folder whose `file` has other entries, or none is there."""

    def make(folder):
        name, _ = hf(processor, **(steps or {**SHORTER, **CROP}))(folder)
        change(folder / "net" / file, values) if values else (folder / "net" / file).unlink()
        return name, None

    return make


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (edit({"do_pad": True}), {"recipe": "stretch"}, "pads pictures"),
        (edit({"do_resize": False}), {"recipe": "stretch"}, "does not resize"),
        (edit({"resample": 1}), {"interpolation": "bilinear"}, "resample 1"),
        (edit({"image_processor_type": "StrangeImageProcessor"}), {"recipe": "stretch"}, "StrangeImageProcessor"),
        (edit({"size": {"longest_edge": 99}}), {"recipe": "stretch"}, "longest_edge"),
        (edit({"crop_size": {"height": 99, "width": 99}}), {"recipe": "stretch"}, "no recipe does"),
        (edit(None), {"recipe": "stretch"}, "has no preprocessor_config.json"),
        (timm_folder(crop_mode="border"), {"recipe": "stretch"}, "crop_mode border pads"),
        (timm_folder(interpolation="lanczos"), {"interpolation": "bicubic"}, "interpolation lanczos"),
    ],
)
def test_what_no_recipe_does_is_refused_until_the_user_decides(tmp_path, make, given, message):
    facts = find_source(*make(tmp_path)).facts(None)
    with pytest.raises(UsageError, match=message) as caught:
        facts.taken({})
    assert caught.value.hint
    assert facts.taken(given)


CONFIG, PROCESSOR = "config.json", "processor_config.json"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (edit({"do_center_crop": True}, processor="ConvNext", size={"shortest_edge": 32}), UsageError),
        (edit({"do_center_crop": True, "crop_size": 23}, processor="ConvNext", size={"shortest_edge": 32}), UsageError),
        (edit({"do_center_crop": True, "crop_size": 40}, processor="ConvNext", size={"shortest_edge": 32}), UsageError),
        (edit({"do_center_crop": True, "size": 32}, processor="ConvNext", size={"shortest_edge": 32}), UsageError),
        (edit({"id2label": {"1": "a", "2": "b"}}, CONFIG), UsageError),
        (edit({"id2label": {"0": "a\nb"}}, CONFIG), ModelError),
        (edit({"architectures": [3]}, CONFIG), ModelError),
        (edit({"image_mean": [[1]]}), ModelError),
        (edit({"rescale_factor": None}), ModelError),
        (edit({"rescale_factor": 0}), ModelError),
        (edit({"size": {"height": "a", "width": []}}), ModelError),
        (edit({"image_processor": {"image_processor_type": "LevitImageProcessor"}}, PROCESSOR), UsageError),
    ],
)
def test_entries_that_can_not_be_meant_are_refused(tmp_path, make, error):
    with pytest.raises(error) as caught:
        find_source(*make(tmp_path)).facts(None).taken({})
    assert caught.value.hint


def test_another_definition_with_the_same_weights_is_another_model(tmp_path):
    folder = save_hugging_face(tmp_path / "net", size={"height": 32, "width": 32})
    before = find_source(str(folder), None).read(InputSpec(), Size.square(32))
    assert find_source(str(folder), None).read(InputSpec(), Size.square(32)).sha256 == before.sha256
    change(folder / "config.json", {"num_attention_heads": 4})
    assert find_source(str(folder), None).read(InputSpec(), Size.square(32)).sha256 != before.sha256


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"architecture": "hf-hub:timm/test_vit.r160_in1k"}, "timm has no network"),
        ({"model_args": {"checkpoint_path": "x.pth"}}, "checkpoint_path in its model_args"),
    ],
)
def test_a_timm_folder_loads_nothing_from_elsewhere(tmp_path, values, message):
    folder = save_timm(tmp_path / "net", "test_resnet")
    change(folder / "config.json", values)
    with pytest.raises(ModelError, match=message):
        find_source(str(folder), None).make_module()


def test_torchvision_networks_that_normalise_by_themselves_are_refused(tmp_path):
    pytest.importorskip("torchvision")
    with pytest.raises(UsageError, match="normalises pictures by itself"):
        find_source("torchvision:inception_v3", tmp_path / "weights.pt")
