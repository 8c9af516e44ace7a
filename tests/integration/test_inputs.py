"""Networks with rectangular inputs or BGR, built and run by the command: what each gets is compared with Pillow's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import need
from tests.support.graphs import save_ir, save_tiles
from tests.support.networks import Tiles, save, traced
from tests.support.projects import Project

pytestmark = pytest.mark.slow
SIZES = [(120, 90), (90, 121), (61, 160), (33, 32), (401, 300), (64, 48)]
AS_IT_IS = ("--set", "mean=0,0,0", "--set", "std=1,1,1", "--output", "embedding")


@pytest.fixture
def project(tmp_path) -> Project:
    """A day of photos whose colours differ from left to right, from top to bottom, and by channel."""
    project = Project(tmp_path / "project")
    for number, (width, height) in enumerate(SIZES):
        y, x = np.mgrid[0:height, 0:width]
        channels = (255 * x / width, 200 * y / height, np.full(x.shape, 30 + 5 * number))
        Image.fromarray(np.stack(channels, -1).astype(np.uint8)).save(project.photos / f"{number}.jpg", quality=95)
    project.add("photos")
    return project


def expected(project: Project, pixels_of, channels: slice = slice(None)) -> dict[str, np.ndarray]:
    """The tiles of each photo, by name, as pixels_of(image) makes its pixels with Pillow."""
    found = {}
    for path in sorted(project.photos.iterdir()):
        with Image.open(path) as image:
            pixels = torch.from_numpy(np.array(pixels_of(image))[..., channels].copy())
        found[path.name] = Tiles()(pixels.permute(2, 0, 1)[None].float() / 255)[0].numpy()
    return found


def predicted(project: Project, *flags: str) -> dict[str, np.ndarray]:
    """What a run writes for each photo, by name."""
    report = project.run_day(*flags)
    assert (report["predicted"], report["rejected"]) == (len(SIZES), 0)
    sql = "SELECT location, vector FROM infer_current_predictions"
    return {location.rpartition("/")[2]: np.frombuffer(vector, "<f4") for location, vector in project.rows(sql)}


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for name, vector in found.items():
        assert np.abs(vector - wanted[name]).max() < 0.01, name


def stretched(width: int, height: int):
    return lambda image: image.resize((width, height), Image.Resampling.BICUBIC)


@pytest.mark.parametrize(("executor", "decode"), [("cpu", "scaled"), ("cuda", "exact")])
def test_a_rectangle_is_width_by_height_from_the_flag_to_the_table(project, executor, decode):
    save(traced(Tiles(), shape=(48, 80)), project.folder / "tiles.ts")
    flags = ("--size", "80x48", "--recipe", "stretch", "--set", f"decode={decode}")
    project.infer("model", "build", "tiles.ts", "--name", "tiles", *flags, *AS_IT_IS)
    assert_same(predicted(project, "--executor", executor), expected(project, stretched(80, 48)))


def test_a_rectangle_is_cropped_out_of_what_covers_it(project):
    save(traced(Tiles(), shape=(48, 80)), project.folder / "tiles.ts")
    flags = ("--size", "80x48", "--set", "resize=90x54", "--set", "centre=down")
    project.infer("model", "build", "tiles.ts", "--name", "tiles", *flags, *AS_IT_IS)

    def covered(image: Image.Image) -> Image.Image:
        ratio = min(image.width / 90, image.height / 54)
        image = image.resize((round(image.width / ratio), round(image.height / ratio)), Image.Resampling.BICUBIC)
        left, top = (image.width - 80) // 2, (image.height - 48) // 2
        return image.crop((left, top, left + 80, top + 48))

    assert_same(predicted(project), expected(project, covered))


@pytest.mark.parametrize("kind", ["onnx", "xml"])
def test_a_network_of_a_fixed_rectangle_needs_no_size(project, kind):
    need("onnx")
    source = save_tiles(project.folder / "tiles.onnx", height=198, width=320)
    if kind == "xml":
        save_ir(project.folder / "tiles.xml", source)
    flags = ("--name", "tiles", "--recipe", "stretch", *AS_IT_IS)
    project.infer("model", "build", f"tiles.{kind}", *flags)
    assert "size 320x198 (input of 320 x 198)" in project.errors
    assert_same(predicted(project), expected(project, stretched(320, 198)))


@pytest.mark.parametrize("executor", ["cpu", "cuda"])
def test_a_network_that_takes_bgr_gets_blue_first_and_so_does_its_mean(project, executor):
    save(traced(Tiles(), shape=(48, 48)), project.folder / "tiles.ts")
    flags = ("--size", "48", "--recipe", "stretch", "--set", "channels=bgr", *AS_IT_IS, "--set", "mean=0.1,0.2,0.4")
    project.infer("model", "build", "tiles.ts", "--name", "tiles", *flags)
    mean = np.repeat(np.array([0.1, 0.2, 0.4], np.float32), 12)
    wanted = expected(project, stretched(48, 48), slice(None, None, -1))
    assert_same(predicted(project, "--executor", executor), {name: tiles - mean for name, tiles in wanted.items()})
