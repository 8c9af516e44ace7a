"""Half precision and int8 of a detector, judged by the objects that they keep."""

import pytest
import torch

from infer_app.model_variants import OPENVINO_INT8, TORCHSCRIPT
from infer_app.models.artifact.specs import DetectionSpec, OutputSpec
from infer_app.models.building.build_arguments import BuildRequest
from infer_app.models.building.build_model import build_model
from infer_app.models.building.calibration import CalibrationImages
from infer_app.models.building.decoding_agreement import decoding_agreement, describe_agreement
from infer_app.models.building.judge_variants import describe_kept
from infer_app.models.building.openvino_variants import add_variants, agreement_score, judge_on, judgement
from infer_app.models.runtimes.open_variant import open_variant
from infer_app.models.verification.golden import predict_all
from infer_app.models.verification.parity import Parity
from infer_app.recipe import Recipe
from tests.support.detectors import Quadrants
from tests.support.networks import save
from tests.support.photos import jpeg

SIZE = 64
COLORED, BLACK = (torch.full((3, SIZE, SIZE, 3), level, dtype=torch.uint8) for level in (150, 0))


@pytest.fixture
def artifact(tmp_path):
    source = save(Quadrants(), tmp_path / "net.ts")
    output = OutputSpec("detection", detection=DetectionSpec())
    recipe = Recipe("stretch", SIZE, decode="scaled")
    return add_variants(build_model(BuildRequest(str(source), "net", recipe, output=output), tmp_path), None, print)


def judged(artifact, pixels, spoil=lambda rows: None):
    model = open_variant(artifact, TORCHSCRIPT)
    rows = predict_all(model, pixels, model.batch_size).reshape(len(pixels), 8, 6)
    spoil(rows)
    return judge_on(artifact, model, CalibrationImages(pixels[:0], pixels, rows.reshape(len(pixels), -1)))


def halve_half(rows):
    rows[:, 4:, 4] /= 4


def test_a_variant_is_judged_by_the_objects_that_it_keeps(artifact):
    said = []
    parity = judged(artifact, COLORED)
    assert (parity.num_objects, agreement_score(artifact, parity)) == (24, 1.0)
    assert judgement(artifact, OPENVINO_INT8, parity, 0.97, said.append)["meets_bar"] is True
    assert describe_kept(artifact.manifest, parity) == "keeps 100.0% of 24 objects"
    worse = judged(artifact, COLORED, halve_half)
    assert (worse.num_objects, worse.object_agreement) == (12, 1.0)  # the others were there with less
    assert said == []


def test_images_without_an_object_tell_nothing_so_no_run_takes_the_variant(artifact):
    said = []
    parity = judged(artifact, BLACK)
    assert describe_kept(artifact.manifest, parity) == "no objects were found"
    assert judgement(artifact, OPENVINO_INT8, parity, 0.97, said.append)["meets_bar"] is False
    assert "no object was found on 3 images" in said[0]


def test_what_decoding_changes_is_told_in_objects(artifact):
    predict = open_variant(artifact, TORCHSCRIPT)
    parity = decoding_agreement(predict, artifact.manifest.recipe, [jpeg(400, 300)], 4, artifact)
    assert (parity.num_objects > 0, parity.object_agreement) == (True, 1.0)
    assert f"100.0% of {parity.num_objects} objects" in describe_agreement(parity, "detection")
    none = Parity(1, 1.0, None, 0.0, 0.0, num_objects=0)
    assert "no object was found" in describe_agreement(none, "detection")
