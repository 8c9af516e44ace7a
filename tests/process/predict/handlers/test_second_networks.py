"""A second network on crops of a picture that is given, without files or an artifact."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import CropSpec
from infer_app.base.domain import Chunk, DetectedObject, FileFacts, ImageRef, Output, Sample
from infer_app.base.telemetry.stage_clock import StageClock
from infer_app.predict.handlers.predictor import LoadedModel
from infer_app.predict.handlers.second_networks import SecondNetworks
from infer_app.predict.workers.heartbeat import SIZE, Heartbeat

REF = ImageRef("1", "/1.jpg")


def test_the_mark_names_the_model_whenever_a_second_network_predicts():
    """A network that hangs or crashes is no picture that can't be transformed, which is rejected at once."""
    heartbeat, stages = Heartbeat(bytearray(SIZE)), []

    def predict(pixels):
        stages.append((heartbeat.read().stage, len(pixels)))
        return pixels[:, 0, 0]

    manifest = SimpleNamespace(crop=CropSpec("animals", 0.2), recipe=Recipe("stretch", 8))
    artifact = SimpleNamespace(manifest=manifest, crop_function=lambda: None, preprocess=lambda: None)
    model = LoadedModel(1, artifact, "", 2, predict, lambda raw, _: [Output()] * len(raw))
    networks = SecondNetworks([model], SimpleNamespace(within_memory=nullcontext))
    sample = Sample(REF, None, FileFacts(), np.zeros((20, 20, 3), np.uint8))
    found = tuple((number, DetectedObject("animal", 0, 0.5, 0, 0, 1, 1)) for number in range(3))
    chunk, clock = Chunk(0, (REF,), (1,)), StageClock(False)
    networks.add(chunk, sample, found, heartbeat, clock)
    (prediction,) = networks.finish(chunk, heartbeat, clock)
    assert [one.object for one in prediction.output.crops] == [0, 1, 2]
    assert stages == [("model", 2), ("model", 1)]
