"""On the device: the files in a slot become pixels, by a GPU's decoder, and by the CPU's where that one refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from infer_app.domain import Broken, Chunk
from infer_app.errors import ModelError
from infer_app.handlers.device_errors import device_loss_raised
from infer_app.handlers.loader import Loader
from infer_app.images.decode.gpu_decoder import GpuDecoder, suits_gpu
from infer_app.models.artifact.artifact import Artifact
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Heartbeat

# By which a golden pixel may differ: 2 of the resize, and what a decoder makes of colour at half the resolution, which
# was 51 on noise where each colour was repeated instead of spread over its pixels.
GPU_LEVELS = 64


def decodes_on_gpu(artifact: Artifact) -> bool:
    return artifact.manifest.recipe.decode == "gpu"


class GpuDecodeStage:
    """Fills the rows of a buffer on the device whose images came as files."""

    def __init__(self, loader: Loader, device: torch.device) -> None:
        """Raises ModelError where there is no decoder for the device."""
        self._loader = loader
        self._decoder = GpuDecoder(device)

    def unpack(
        self, chunk: Chunk, files: Mapping[int, bytes], pixels: Tensor, heartbeat: Heartbeat, clock: StageClock
    ) -> dict[int, Broken]:
        """The rows of `pixels`, (n, size, size, 3) uint8, that `files` are for; by row, those that have none.

        While the GPU decodes, the heartbeat names the whole chunk, so that an image that crashes the decoder is retried
        alone.
        """
        with clock.time("gpu-decode"):
            decoded = dict(zip(files, self._decoded(list(files.values())), strict=True))
            for row, found in decoded.items():
                if found is not None:
                    pixels[row] = found
        broken = {}
        for row in (row for row, found in decoded.items() if found is None):
            clock.refs = (chunk.refs[row],)
            sample = self._loader.decode(chunk.refs[row], files[row], chunk.files[row], row, heartbeat, clock)
            if isinstance(sample, Broken):
                broken[row] = sample
            else:
                pixels[row] = sample.pixels.to(pixels.device)
        clock.refs = chunk.refs
        return broken

    def pixels(self, data: bytes) -> Tensor:
        """Those of a golden image on the CPU, (size, size, 3) uint8.

        ModelError where a GPU should decode it and can't.
        """
        if not suits_gpu(data, self._loader.recipe, self._loader.decode_limits):
            return self._loader.pixels(data)
        (found,) = self._decoded([data], are_whole=True)
        if found is None:
            raise ModelError(
                f"{self._decoder.name} does not decode a golden image",
                "is nvJPEG there? pip install 'infer_app[gpu-decode]'; or build the model with --decode exact",
            )
        return found.cpu()

    def _decoded(self, files: Sequence[bytes], are_whole: bool = False) -> list[Tensor | None]:
        with device_loss_raised():  # in a new process each image is alone, and decoded by the CPU
            return self._decoder.pixels(files, self._loader.recipe, are_whole)
