"""Opens any variant of a model by the runtime that it is made for."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from infer_app.artifact.artifact import Artifact
from infer_app.base.errors import ModelError
from infer_app.base.model_variants import TORCHSCRIPT, known_variant
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.gpu_probe import missing_for
from infer_app.predict.runtimes.openvino import build_openvino_variant

if TYPE_CHECKING:
    import torch


def open_variant(
    artifact: Artifact,
    variant: str,
    batch_size: int | None = None,
    num_threads: int = 1,
    device: torch.device | str | None = None,
) -> FixedBatch:
    """Open a variant, ready to run (n, H, W, 3) uint8 with n up to its batch size. Raises ModelError.

    `num_threads` applies to CPU variants and `device` to GPU variants, which take pixels from any device and leave
    their outputs on their own. Only TorchScript and the GPU variants load torch.
    """
    given = {} if batch_size is None else {"batch_size": batch_size}
    is_on_gpu = known_variant(variant).device == "cuda"
    # A node of a cluster may differ from the machine that planned the run.
    if not is_on_gpu and (why := missing_for(variant, artifact.manifest.requires(variant))):
        raise ModelError(f"{variant} can't run on {socket.gethostname()}: {why}", "leave such machines out of the run")
    if variant == TORCHSCRIPT:
        from infer_app.predict.runtimes.torchscript import build_cpu_variant

        return build_cpu_variant(artifact, num_threads=num_threads, **given)
    if is_on_gpu:
        from infer_app.predict.runtimes.gpu_variants import open_gpu_variant

        return open_gpu_variant(artifact, variant, batch_size, device or "cuda")
    return build_openvino_variant(artifact, variant, num_threads=num_threads, **given)
