import logging
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from infer_app.artifact.artifact import record_variant
from infer_app.artifact.specs import CropSpec
from infer_app.base.model_variants import OPENVINO_FP32, TORCHSCRIPT
from infer_app.base.size import Size
from infer_app.build.variants import openvino_variants
from infer_app.build.variants.openvino_variants import add_variants
from infer_app.predict.planning import measure
from infer_app.predict.planning.measure import measure_in_worker, measure_models, measure_variants
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from tests.support.networks import SIZE, Network, built, random_pixels


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(measure, "ROUND_S", 0.001)
    monkeypatch.setattr(measure, "ROUNDS", 3)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    """With both fp32 variants."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(openvino_variants, "computes_bf16", lambda: False)
        return add_variants(built(tmp_path_factory.mktemp("model"), Network(), labels=None), None, print)


def busy(cpu_ms_per_batch, batch_size):
    """A model that keeps a core busy for so long, whatever else the machine does."""

    def run(pixels):
        until = time.thread_time() + cpu_ms_per_batch / 1e3
        while time.thread_time() < until:
            pass
        return np.zeros((len(pixels), 1), np.float32)

    return FixedBatch(run, Size.square(SIZE), batch_size)


def test_the_batch_size_that_takes_least_for_an_image_is_kept():
    """A larger batch shares the cost of a call."""
    models = {"slow": [busy(6, 1), busy(6, 2)], "fast": [busy(2, 1), busy(3, 4), busy(12, 8)]}
    models["cheap"] = [busy(0.1, 1), busy(1.2, 8)]  # 0.1 and 0.15 ms for an image, 0.35 and 0.18 with the call
    speeds = measure_models(models, random_pixels(3))
    assert {name: speed.batch_size for name, speed in speeds.items()} == {"slow": 2, "fast": 4, "cheap": 8}
    assert speeds["slow"].ms_per_image == pytest.approx(3.0, rel=0.3)


def test_neither_a_noisy_moment_nor_waiting_counts():
    """The best round does, in CPU time, which another program's hold of the core does not add to."""
    slow, first = busy(30, 1), []

    def run(pixels):
        time.sleep(0.005)
        if not first:
            first.append(slow(pixels))
        return np.zeros((len(pixels), 1), np.float32)

    speed = measure_models({"quick": [FixedBatch(run, Size.square(SIZE), 1)]}, random_pixels(1))["quick"]
    assert speed.ms_per_image < 2


def test_every_variant_that_runs_here_is_measured(artifact):
    speeds = measure_variants(artifact, (1, 4))
    assert list(speeds) == [TORCHSCRIPT, OPENVINO_FP32]
    assert all(speed.batch_size in (1, 4) and speed.ms_per_image > 0 for speed in speeds.values())
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(("is_quick", "batch_sizes"), [(False, [1, 2, 4, 8]), (True, [4])])
def test_a_model_is_measured_by_its_folder_with_fewer_batch_sizes_when_somebody_waits(
    artifact, monkeypatch, is_quick, batch_sizes
):
    seen = []
    monkeypatch.setattr(measure, "measure_models", lambda models, pixels: seen.append(models) or {})
    measure_in_worker(artifact.folder, is_quick)
    sizes = {variant: [model.batch_size for model in models] for variant, models in seen[0].items()}
    assert sizes == {TORCHSCRIPT: batch_sizes, OPENVINO_FP32: batch_sizes}


def test_a_second_network_is_measured_in_small_batches(artifact):
    """The last batch of a chunk is filled up, and a chunk may have a single object."""
    second = replace(artifact, manifest=replace(artifact.manifest, crop=CropSpec("animals", 0.2)))
    assert {speed.batch_size for speed in measure_variants(second, (4, 8)).values()} == {2}


def test_a_large_input_is_measured_one_at_a_time_and_a_slow_model_once(artifact, monkeypatch):
    monkeypatch.setattr("infer_app.base.size.BATCH_PIXELS", 2 * SIZE**2 - 1)
    assert {speed.batch_size for speed in measure_variants(artifact, (4, 8)).values()} == {1}
    calls = []
    monkeypatch.setattr(measure, "ENOUGH_S", 1e-9)
    model = FixedBatch(lambda pixels: calls.append(1) or busy(2, 1)(pixels), Size.square(SIZE), 1)
    measure_models({"slow": [model]}, random_pixels(1))
    assert len(calls) == 1


def test_a_variant_that_can_not_be_opened_is_left_out_and_told_and_an_unknown_one_is_not_tried(artifact, caplog):
    damaged = record_variant(artifact, "cpu-openvino-int8", {}, {"model.xml": b"<", "model.bin": b""})
    damaged = record_variant(damaged, "cpu-of-tomorrow", {}, {})
    with caplog.at_level(logging.WARNING):
        speeds = measure_variants(damaged, (2,))
    assert list(speeds) == [TORCHSCRIPT, OPENVINO_FP32]
    (record,) = caplog.records
    assert record.getMessage().startswith("cpu-openvino-int8 can't be measured: ")
