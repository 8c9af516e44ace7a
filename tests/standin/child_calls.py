"""What the tests have done in fresh processes: a runtime registers its classes once in a process and for good."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from infer_app.artifact.artifact import open_artifact
from infer_app.build.variants import add_gpu_variants as add_gpu_variants_module
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants
from infer_app.predict.runtimes import tensorrt
from infer_app.predict.runtimes.gpu_probe import Gpu, Host
from infer_app.predict.runtimes.open_variant import open_variant
from infer_app.predict.verification.golden import predict_all
from tests.support.networks import Network

CPU = torch.device("cpu")  # where the stand-in runs its plans
HOST = Host("linux_x86_64", Gpu("Stand-in", "9.0"), "2.13.0", "13.0", "2.13.0", "11.0.0")


def make_other_network() -> nn.Module:
    """Of the same shape and with other weights."""
    module = Network().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(weight.flip(0) - 0.3)
    return module


def make_network() -> nn.Module:
    return Network().eval()


def build(folder: Path, variant: str, make=make_network) -> dict:
    """The variant's entry in the manifest."""
    artifact = add_gpu_variants(open_artifact(folder), [variant], BuildTarget(HOST, CPU, make), print)
    return artifact.manifest.variants[variant]


def predict(folder: Path, variant: str, pixels: np.ndarray, batch_size: int) -> np.ndarray:
    model = open_variant(open_artifact(folder), variant, batch_size, device=CPU)
    return predict_all(model, pixels, batch_size)


def load_without_runtime(module: bytes) -> None:
    with tensorrt._translate_errors():
        tensorrt.load_runnable(module, CPU)


def build_with_bar(folder: Path, variant: str, min_cosine: float) -> dict:
    add_gpu_variants_module.MIN_COSINE = min_cosine
    return build(folder, variant)
