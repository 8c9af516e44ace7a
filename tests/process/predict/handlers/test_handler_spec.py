"""A worker opens the network that the run writes under, or none, and its heartbeat names the one that predicts."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from infer_app.artifact.artifact import record_variant, save_manifest
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import CropSpec
from infer_app.base.domain import Chunk, DetectedObject, FileFacts, ImageRef, Output, Sample
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import OPENVINO_BF16, OPENVINO_FP32, OPENVINO_INT8
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.handler_spec import ModelSpec
from infer_app.predict.handlers.predictor import LoadedModel
from infer_app.predict.handlers.second_networks import SecondNetworks
from infer_app.predict.workers.heartbeat import SIZE, Heartbeat
from tests.support.networks import built


@pytest.fixture
def artifact(tmp_path):
    """With files of int8 and fp32 that stand for a calibration and a conversion."""
    artifact = record_variant(built(tmp_path), OPENVINO_FP32, {}, {"model.xml": b"A", "model.bin": b"A"})
    artifact = record_variant(artifact, OPENVINO_BF16, {})
    return record_variant(artifact, OPENVINO_INT8, {}, {"model.xml": b"A", "model.bin": b"A"})


@pytest.mark.parametrize("variant", [OPENVINO_INT8, OPENVINO_FP32])
def test_a_variant_that_was_built_anew_is_refused_and_the_others_are_not(artifact, variant):
    """bf16 computes the files of fp32."""
    specs = [ModelSpec.of(artifact, name) for name in artifact.manifest.variants]
    record_variant(artifact, variant, {}, {"model.xml": b"A", "model.bin": b"B"})
    for spec in specs:
        if variant == spec.variant or (variant, spec.variant) == (OPENVINO_FP32, OPENVINO_BF16):
            with pytest.raises(ModelError, match=rf"{spec.variant} has other files \(variants/{variant}/.*model\.bin"):
                spec.open()
        else:
            spec.open()


def test_a_judgement_changes_no_network_and_a_variant_that_is_gone_is_told(artifact):
    spec = ModelSpec.of(artifact, OPENVINO_INT8)
    record_variant(artifact, OPENVINO_INT8, {"min_agreement": 0.9})
    assert spec.open().manifest.variants[OPENVINO_INT8] == {"min_agreement": 0.9}
    del artifact.manifest.variants[OPENVINO_INT8]
    save_manifest(artifact.folder, artifact.manifest)
    with pytest.raises(ModelError, match="cpu-openvino-int8 is gone"):
        spec.open()


def test_the_mark_names_the_model_whenever_a_second_network_predicts():
    """A network that hangs or crashes is no picture that can't be transformed, which is rejected at once."""
    heartbeat, stages, ref = Heartbeat(bytearray(SIZE)), [], ImageRef("1", "/1.jpg")

    def predict(pixels):
        stages.append((heartbeat.read().stage, len(pixels)))
        return pixels[:, 0, 0]

    manifest = SimpleNamespace(crop=CropSpec("animals", 0.2), recipe=Recipe("stretch", 8))
    artifact = SimpleNamespace(manifest=manifest, crop_function=lambda: None, preprocess=lambda: None)
    model = LoadedModel(1, artifact, "", 2, predict, lambda raw, _: [Output()] * len(raw))
    networks = SecondNetworks([model], SimpleNamespace(within_memory=nullcontext))
    sample = Sample(ref, None, FileFacts(), np.zeros((20, 20, 3), np.uint8))
    found = tuple((place, DetectedObject("animal", 0, 0.5, 0, 0, 1, 1), place + 7) for place in range(3))
    chunk, clock = Chunk(0, (ref,), (1,)), StageClock()
    networks.add(chunk, sample, found, heartbeat, clock)
    (prediction,) = networks.finish(chunk, heartbeat, clock)
    assert [(one.object, one.number) for one in prediction.output.crops] == [(0, 7), (1, 8), (2, 9)]
    assert stages == [("model", 2), ("model", 1)]
