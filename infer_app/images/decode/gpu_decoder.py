"""JPEGs become pixels on a GPU, by nvImageCodec; on the device `cpu` by its own CPU decoder, through the same code."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.domain import Recipe
from infer_app.errors import ModelError
from infer_app.images.transform.gpu_transform import transform_on_device

log = logging.getLogger(__name__)

FLAT_PIXELS = 16  # the width of what a JPEG's code makes at a time, mostly
_HINT = "pip install 'infer_app[gpu-decode]', or build the model with --decode exact"


class GpuDecoder:
    """Lenient: what it gives for a broken file may be garbage. `suits_gpu` says what it should be given."""

    def __init__(self, device: torch.device) -> None:
        """Raises ModelError where nvImageCodec is missing or does not start."""
        try:
            with _silence():
                self._library, self._decoder = _open(device)
        except ImportError as error:
            raise ModelError(f"decoding on a GPU needs nvImageCodec: {error}", _HINT) from error
        except RuntimeError as error:
            raise ModelError(f"nvImageCodec does not start: {error}", _HINT) from error
        self.name = f"nvImageCodec {self._library.__version__} on {device}"
        self._device = device
        library = self._library
        self._params = library.DecodeParams(
            apply_exif_orientation=False, color_spec=library.ColorSpec.SRGB, sample_format=library.SampleFormat.I_RGB
        )

    @classmethod
    def here(cls) -> GpuDecoder:
        """By this machine's GPU, or without one on the CPU. Raises ModelError as the constructor does."""
        return cls(torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def pixels(self, files: Sequence[bytes], recipe: Recipe, are_whole: bool = False) -> list[Tensor | None]:
        """The model's input of each on the device, (size, size, 3) uint8 RGB; None for what the CPU should look at.

        That is what it can't do, and unless they `are_whole` pictures that may end in filler. Raises
        torch.AcceleratorError where the device itself failed, and does nothing any more.
        """
        images: list[Any] = []
        try:
            images = self._decode(files)
            found = self._rows(images, recipe, are_whole)
        except torch.AcceleratorError:
            raise
        except RuntimeError as error:  # memory, mostly
            log.warning("nvImageCodec failed on %d images, which the CPU decodes: %s", len(files), error)
            found = [None] * len(files)
        self._wait()  # here, where there still are the images, whose memory is read until then
        return found

    def _decode(self, files: Sequence[bytes]) -> list[Any]:
        """Ordered before what comes next on torch's current stream."""
        stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
        streams = [self._library.CodeStream(data) for data in files]
        images: list[Any] = self._decoder.decode(streams, params=self._params, cuda_stream=stream)
        return images

    def _rows(self, images: Sequence[Any], recipe: Recipe, are_whole: bool) -> list[Tensor | None]:
        pictures = {number: rgb for number, image in enumerate(images) if (rgb := self._picture(image)) is not None}
        found: list[Tensor | None] = [None] * len(images)
        for (number, rgb), is_flat in zip(pictures.items(), _end_flat(list(pictures.values())), strict=True):
            if are_whole or not is_flat:
                found[number] = transform_on_device(rgb, recipe)
        return found

    def _wait(self) -> None:
        """Asleep, not spinning: the core is a loader's."""
        if self._device.type == "cuda":
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record(torch.cuda.current_stream(self._device))
            done.synchronize()

    def _picture(self, image: Any | None) -> Tensor | None:
        """(H, W, 3) uint8 RGB, the image's own memory."""
        if image is None:
            return None
        source = np.asarray(image) if self._device.type == "cpu" else image
        rgb = torch.as_tensor(source, device=self._device)
        return rgb if rgb.dtype == torch.uint8 and rgb.shape[2:] == (3,) else None


def _end_flat(pictures: Sequence[Tensor]) -> list[bool]:
    """Whether the end of the last row is of one colour: that of a file whose data ended too early is.

    Many a sound one is too, and costs the CPU's time; of those that lack some data it misses few.
    """
    flat = [(rgb[-1, -FLAT_PIXELS:] == rgb[-1, -1]).all() for rgb in pictures]
    return torch.stack(flat).tolist() if flat else []


def _open(device: torch.device) -> tuple[Any, Any]:
    """Library and decoder. Never its CPU decoder beside a GPU's: ours knows a broken file when it sees one."""
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")  # a file that it refuses is no news
    from nvidia import nvimgcodec

    kinds = nvimgcodec.BackendKind
    is_cpu = device.type == "cpu"
    backends = [kinds.CPU_ONLY] if is_cpu else [kinds.HW_GPU_ONLY, kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU]
    decoder = nvimgcodec.Decoder(
        device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY if is_cpu else device.index or 0,
        max_num_cpu_threads=1 if is_cpu else 0,
        backends=[nvimgcodec.Backend(kind) for kind in backends],
        options=":fancy_upsampling=1",  # colour spread over the pixels as libjpeg and Pillow do it
    )
    return nvimgcodec, decoder


@contextmanager
def _silence() -> Iterator[None]:
    """It prints a line for each library of CUDA's that is not there, needed or not."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
