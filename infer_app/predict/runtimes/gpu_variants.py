"""Open the GPU variants: a TorchScript module in fp16 or bf16, or one that embeds a TensorRT plan."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Details
from infer_app.base.errors import ModelError, first_line
from infer_app.base.model_variants import variant_of
from infer_app.base.size import Size
from infer_app.predict.runtimes import tensorrt
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.torchscript import WARM_UP_RUNS, Script, load_frozen, rows_of


class DeviceBatch(FixedBatch):
    """A model in a device's memory: tensors of pixels may come from any device, and rows stay on the model's own.

    Arrays of pixels give arrays of rows.
    """

    def __init__(self, run: Callable[[Tensor], Tensor], size: Size, batch_size: int, device: torch.device) -> None:
        self.device = device
        super().__init__(run, size, batch_size)  # type: ignore[arg-type]

    def __call__(self, pixels: Any) -> Any:
        if isinstance(pixels, np.ndarray):
            return self(torch.from_numpy(pixels)).cpu().numpy()
        return super().__call__(pixels)

    def join(self, parts: Sequence[Any]) -> Any:
        return torch.cat(list(parts)) if isinstance(parts[0], Tensor) else super().join(parts)

    def _make_zeros(self, shape: tuple[int, ...]) -> Any:
        return torch.zeros(shape, dtype=torch.uint8, device=self.device)

    def _contiguous(self, pixels: Any) -> Any:
        return pixels.to(self.device).contiguous()

    def _as_rows(self, output: Any) -> Any:
        return rows_of(output)


def open_gpu_variant(
    artifact: Artifact, variant: str, batch_size: int | None = None, device: torch.device | str = "cuda"
) -> FixedBatch:
    """Open a stored variant on `device` and warm it up; embed the plan again if the module has another ABI.

    Raises ModelError if it was built for another machine or is damaged, or if TensorRT is missing.
    """
    device, details = torch.device(device), artifact.manifest.variants[variant]
    module = _load(artifact, variant, details, device)
    best = int(details.get("batch", {}).get("best", tensorrt.BEST_BATCH))  # the number of images that it was built for
    return run_fixed(module, artifact.manifest.recipe.size, batch_size or best, device)


def run_fixed(module: Script, size: Size, batch_size: int, device: torch.device) -> FixedBatch:
    """Wrap a loaded module for batches of one size and warm it up. Raises ModelError if it can't run them.

    Raises torch.OutOfMemoryError, here and at any later call, if the GPU's memory is too small: the caller may try a
    smaller batch.
    """
    model = DeviceBatch(_runner(module), size, batch_size, device)
    try:
        model.warm_up(WARM_UP_RUNS)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise ModelError(
            f"it can't run {batch_size} images at a time: {first_line(error)}", tensorrt.REBUILD
        ) from error
    return model


def load_module(variant: str, module: bytes, device: torch.device) -> Script:
    """Load the bytes of model.ts as a callable module. Raises ModelError."""
    return (
        tensorrt.load_embedded(module, device)
        if variant_of(variant).runtime == "tensorrt"
        else load_frozen(module, device)
    )


def _load(artifact: Artifact, variant: str, details: Details, device: torch.device) -> Script:
    find = partial(artifact.manifest.find_file, variant)
    is_plan = variant_of(variant).runtime == "tensorrt"
    if is_plan and details.get("requires", {}).get("abi") != tensorrt.runtime_abi():
        plan = artifact.read(find(tensorrt.PLAN_FILE))
        return tensorrt.embed(plan, tensorrt.Bindings(**details["bindings"]), device)
    return load_module(variant, artifact.read(find(tensorrt.MODULE_FILE)), device)


def _runner(module: Script) -> Callable[[Tensor], Tensor]:
    def run(pixels: Tensor) -> Tensor:
        try:
            with torch.inference_mode():
                outputs: Tensor = module(pixels)
                return outputs
        except Exception as error:  # TorchScript replaces the type of an exception that is raised inside it
            if "out of memory" in str(error):
                raise torch.OutOfMemoryError(first_line(error)) from None
            raise

    return run
