import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from infer_app.images.cache import cache_key
from infer_app.images.cache.cache_key import CacheKey, makers
from infer_app.recipe import Recipe

KEY = CacheKey(Recipe("custom", 224), 64_000_000, "steps:f", "ab", "Pillow 13")
CHANGES = [
    *(
        {"recipe": replace(KEY.recipe, **change)}
        for change in (
            {"kind": "stretch"},
            {"size": 225},
            {"resize": 256},
            {"crop": 0.9},
            {"interpolation": "bilinear"},
            {"exif": "ignore"},
            {"decode": "fast"},
            {"depth": "window:0,4095"},
            {"channels": "bgr"},
            {"crop_rounding": "down"},
            {"pad": 114},
        )
    ),
    {"max_pixels": 1},
    {"preprocess": "steps:g"},
    {"preprocess_sha256": "cd"},
    {"made_by": "Pillow 14"},
]


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_pixels_changes_the_id(change):
    assert replace(KEY, **change).recipe_id != KEY.recipe_id


def test_every_field_of_a_recipe_is_in_the_key():
    changed = {name for change in CHANGES if "recipe" in change for name in vars_of(change["recipe"])}
    assert changed == set(Recipe.__dataclass_fields__)


def vars_of(recipe):
    return [name for name in Recipe.__dataclass_fields__ if getattr(recipe, name) != getattr(KEY.recipe, name)]


def test_equal_keys_have_one_id():
    assert replace(KEY).recipe_id == KEY.recipe_id
    assert CacheKey.of(Recipe("stretch", 8), 10) == CacheKey.of(Recipe("stretch", 8), 10)


def test_the_key_of_a_square_is_the_one_it_was_when_a_size_was_a_number():
    key = CacheKey(Recipe("resize-crop", 224, resize=256, interpolation="bilinear"), 64_000_000, made_by="Pillow 13")
    assert key.recipe_id == "f74612302c8825b9"


def test_the_makers_are_named_with_their_versions():
    named = makers()
    assert "Pillow" in named
    assert "torch" in named
    assert "code" in named


def test_any_change_to_the_code_makes_another_key(tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(Path(cache_key.__file__).parents[1], folder)
    seen = {cache_key._code_of(folder)}
    for name in ("decode.py", "transform.py", "new.py"):
        with (folder / name).open("a") as file:
            file.write("# changed\n")
        seen.add(cache_key._code_of(folder))
    assert len(seen) == 4
    assert cache_key._code_of(Path(cache_key.__file__).parents[1]) in makers()


def test_a_custom_recipe_has_no_key_without_its_function():
    with pytest.raises(ValueError, match="depend on its function"):
        CacheKey.of(Recipe("custom", 8), 10)
    assert CacheKey.of(Recipe("custom", 8), 10, "steps:f", "ab").preprocess == "steps:f"
