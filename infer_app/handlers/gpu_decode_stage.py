"""Decoding of files in a slot on the GPU, with the CPU's decoder for files that the GPU refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from infer_app.domain import Broken, Chunk
from infer_app.errors import ModelError
from infer_app.handlers.loader import Loader
from infer_app.images.decode.gpu_decoder import GpuDecoder, suits_gpu
from infer_app.models.artifact.artifact import Artifact
from infer_app.models.runtimes.device_errors import device_loss_raised
from infer_app.telemetry.stage_clock import StageClock
from infer_app.workers.heartbeat import Heartbeat

# Tolerance for a golden pixel: 2 levels for the resize, the rest for chroma upsampling. On noise a decoder that repeats
# chroma instead of interpolating it differed by 51 levels.
GPU_LEVELS = 64


def decodes_on_gpu(artifact: Artifact) -> bool:
    return artifact.manifest.recipe.decode == "gpu"


class GpuDecodeStage:
    """Decodes the images of a chunk that its slot holds as files into a buffer on the device."""

    def __init__(self, loader: Loader, device: torch.device) -> None:
        """Open the decoder. Raises ModelError if there is none for the device."""
        self._loader = loader
        self._decoder = GpuDecoder(device)

    def unpack(
        self, chunk: Chunk, files: Mapping[int, bytes], pixels: Tensor, heartbeat: Heartbeat, clock: StageClock
    ) -> dict[int, Broken]:
        """Decode `files` into their rows of `pixels`, (n, H, W, 3) uint8, and return the broken images by row.

        While the GPU decodes, the heartbeat refers to the whole chunk. If the decoder crashes, each image is retried
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
        """Return the pixels of a golden image on the CPU, (H, W, 3) uint8.

        Raises ModelError if the GPU should decode the image and can't.
        """
        if not suits_gpu(data, self._loader.recipe, self._loader.decode_limits):
            return self._loader.pixels(data)
        (found,) = self._decoded([data], are_whole=True)
        if found is None:
            raise ModelError(
                f"{self._decoder.name} does not decode a golden image",
                "is nvJPEG installed? pip install 'infer_app[gpu-decode]'; or build the model with --decode exact",
            )
        return found.cpu()

    def _decoded(self, files: Sequence[bytes], are_whole: bool = False) -> list[Tensor | None]:
        with device_loss_raised():  # the next process retries each image alone, by the CPU
            return self._decoder.pixels(files, self._loader.recipe, are_whole)
