import json
from dataclasses import replace

import pytest

from infer_app.artifact.recipe import Recipe
from infer_app.base.size import Size


@pytest.mark.parametrize(
    ("text", "size", "in_json"),
    [("224", Size(224, 224), 224), ("640x480", Size(640, 480), "640x480"), ("64x64", Size(64, 64), 64)],
)
def test_a_size_is_written_as_it_is_read(text, size, in_json):
    assert Size.of(text) == size
    assert size.to_json() == in_json
    assert Size.of(in_json) == Size.of(str(size)) == Size.of(size) == size


NO_TEXTS = ["", "x", "0", "640x", "x480", "640x0", "-1", "1.5", " 224", "224 ", "640*480", "640X480", "1x2x3", "\u0663"]


@pytest.mark.parametrize("text", [*NO_TEXTS, 0, -1, 1.5, True, [640, 480], None])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size such as 224 or 640x480"):
        Size.of(text)


def test_pixels_have_the_height_first():
    assert (Size(640, 480).shape, Size(640, 480).num_bytes) == ((480, 640, 3), 640 * 480 * 3)


def test_a_rectangle_is_a_text_in_json():
    recipe = Recipe("resize-crop", Size(640, 480), resize=Size(731, 548))
    written = json.loads(json.dumps(recipe.to_json()))
    assert (written["size"], written["resize"]) == ("640x480", "731x548")
    assert Recipe(**written) == replace(recipe) == recipe


@pytest.mark.parametrize(("side", "batches"), [(224, [1, 2, 4, 8]), (640, [1, 2, 4]), (768, [1, 2]), (1280, [1])])
def test_a_batch_of_large_inputs_is_smaller_and_fills_chunks(side, batches):
    """A chunk has a multiple of 8 images: a batch of 3 would compute 9."""
    assert sorted({Size.square(side).largest_batch(most) for most in (1, 2, 4, 8)}) == batches
