"""Decode JPEGs on a GPU by nvImageCodec, and decide which files may be decoded there; the CPU decodes all others.

On the device `cpu` the same code runs with nvImageCodec's own CPU decoder. The library is loaded with the first
decoder: to ask `suits_gpu` takes no GPU.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_app.errors import ModelError
from infer_app.images.decode.decoder import DecodeLimits
from infer_app.images.decode.formats import is_jpeg
from infer_app.images.decode.jpeg_structure import JpegHeader, is_one_scan_to_the_end, parse_jpeg_header
from infer_app.images.read.bad_image import BadImage
from infer_app.images.transform.geometry import geometry_of
from infer_app.images.transform.to_pixels import centre_of, starts_horizontally
from infer_app.recipe import Recipe, Size

log = logging.getLogger(__name__)

MIN_BYTES = 4096  # the CPU decodes less in a fraction of a millisecond, and notices all damage
MAX_PIXELS = 16 << 20  # a slot of such images takes 3 GB of GPU memory
FLAT_PIXELS = 16  # the usual width of the block that a JPEG is coded in
_BASELINE = 0xC0
_HINT = "pip install 'infer_app[gpu-decode]', or build the model with --decode exact"


class GpuDecoder:
    """A lenient JPEG decoder: it may return garbage for a broken file, so give it only what `suits_gpu` accepts."""

    def __init__(self, device: torch.device) -> None:
        """Raise ModelError if nvImageCodec is missing or does not start."""
        try:
            with _silence_stderr():
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
    def open_default(cls) -> GpuDecoder:
        """Return a decoder on this machine's GPU, or on the CPU if it has none. Raises ModelError."""
        return cls(torch.device("cuda" if torch.cuda.is_available() else "cpu"))

    def pixels(self, files: Sequence[bytes], recipe: Recipe, are_whole: bool = False) -> list[Tensor | None]:
        """Return each file's model input on the device, (H, W, 3) uint8; None for files left to the CPU.

        Those are files that nvImageCodec can't decode and, unless `are_whole`, pictures that may end in filler. Raises
        torch.AcceleratorError if the device itself has failed; it is unusable from then on.
        """
        images: list[Any] = []
        try:
            images = self._decode(files)
            inputs = self._transform(images, recipe, are_whole)
        except torch.AcceleratorError:
            raise
        except RuntimeError as error:  # mostly a lack of memory
            log.warning("nvImageCodec failed on %d images, which the CPU decodes: %s", len(files), error)
            inputs = [None] * len(files)
        self._wait()  # before `images` are freed: their memory is read until then
        return inputs

    def _decode(self, files: Sequence[bytes]) -> list[Any]:
        """Decode on torch's current stream, so before whatever is queued there next."""
        stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
        streams = [self._library.CodeStream(data) for data in files]
        images: list[Any] = self._decoder.decode(streams, params=self._params, cuda_stream=stream)
        return images

    def _transform(self, images: Sequence[Any], recipe: Recipe, are_whole: bool) -> list[Tensor | None]:
        pictures = {number: rgb for number, image in enumerate(images) if (rgb := self._picture(image)) is not None}
        inputs: list[Tensor | None] = [None] * len(images)
        for (number, rgb), is_flat in zip(pictures.items(), _end_flat(list(pictures.values())), strict=True):
            if are_whole or not is_flat:
                inputs[number] = transform_on_device(rgb, recipe)
        return inputs

    def _wait(self) -> None:
        """Wait for the device without spinning, which would take a core from the loaders."""
        if self._device.type == "cuda":
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record(torch.cuda.current_stream(self._device))
            done.synchronize()

    def _picture(self, image: Any | None) -> Tensor | None:
        """Return a view of the image's own memory, (H, W, 3) uint8 RGB; None if it was not decoded to that."""
        if image is None:
            return None
        source = np.asarray(image) if self._device.type == "cpu" else image
        rgb = torch.as_tensor(source, device=self._device)
        return rgb if rgb.dtype == torch.uint8 and rgb.shape[2:] == (3,) else None


def suits_gpu(data: bytes, recipe: Recipe, limits: DecodeLimits) -> bool:
    return picture_for_gpu(data, recipe, limits) is not None


def picture_for_gpu(data: bytes, recipe: Recipe, limits: DecodeLimits) -> Size | None:
    """Return the size of a picture that a GPU may decode, None for others.

    It is a whole, upright baseline JPEG, grey or YCbCr, not larger than its input. This is stricter than what a GPU can
    decode, because its decoder notices little damage: a progressive JPEG may lack its last scans without a trace. Only
    the structure is examined, which takes a tenth of a millisecond.
    """
    if not MIN_BYTES <= len(data) <= recipe.size.num_bytes or not is_jpeg(data):
        return None
    try:
        header = parse_jpeg_header(data)
        is_suitable = (
            _is_plain(header, recipe)
            and header.width * header.height <= min(limits.max_pixels, MAX_PIXELS)
            and _is_resized_alike(header, recipe)
            and is_one_scan_to_the_end(data)
        )
    except BadImage:
        return None
    return Size(header.width, header.height) if is_suitable else None


def _is_plain(header: JpegHeader, recipe: Recipe) -> bool:
    return (
        header.sof == _BASELINE
        and header.is_one_sequential_scan
        and header.num_components in (1, 3)
        and header.component_ids != b"RGB"
        and header.adobe_transform in (None, 1)
        and (header.orientation == 1 or recipe.exif == "ignore")
    )


def _is_resized_alike(header: JpegHeader, recipe: Recipe) -> bool:
    """Return whether Pillow too resizes horizontally first, which is the only order on a GPU."""
    source, resized, _ = geometry_of(header.width, header.height, recipe)
    return recipe.interpolation != "bicubic" or starts_horizontally(int(source.width), int(source.height), resized)


def _end_flat(pictures: Sequence[Tensor]) -> list[bool]:
    """Return for each picture whether its last row ends in one colour, as that of a file whose data ended too early.

    Many intact pictures end so too, which only costs CPU time; few of those that lack data do not.
    """
    flat = [(rgb[-1, -FLAT_PIXELS:] == rgb[-1, -1]).all() for rgb in pictures]
    return torch.stack(flat).tolist() if flat else []


def _open(device: torch.device) -> tuple[Any, Any]:
    """Return library and decoder. On a GPU its CPU backend is left out: our CPU decoder detects broken files."""
    os.environ.setdefault("PYNVIMGCODEC_VERBOSITY", "0")  # it would log every file that it refuses
    from nvidia import nvimgcodec

    kinds = nvimgcodec.BackendKind
    is_cpu = device.type == "cpu"
    backends = [kinds.CPU_ONLY] if is_cpu else [kinds.HW_GPU_ONLY, kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU]
    decoder = nvimgcodec.Decoder(
        device_id=nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY if is_cpu else device.index or 0,
        max_num_cpu_threads=1 if is_cpu else 0,
        backends=[nvimgcodec.Backend(kind) for kind in backends],
        options=":fancy_upsampling=1",  # interpolate chroma as libjpeg and Pillow do
    )
    return nvimgcodec, decoder


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Discard what is written to standard error: the library prints a line for each CUDA library it does not find."""
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


def transform_on_device(rgb: Tensor, recipe: Recipe) -> Tensor:
    """Return the model's input, (H, W, 3) uint8, for a whole picture, (H, W, 3) uint8 RGB, on its device.

    It is within 2 levels of `reference_transform` for pictures that `suits_gpu` accepts. The resize is in floating
    point, because CUDA has none for bytes: one direction after the other, rounded and clipped in between, as in Pillow.
    """
    source, (width, height), _ = geometry_of(rgb.shape[1], rgb.shape[0], recipe)
    cut = rgb[source.top : source.top + int(source.height), source.left : source.left + int(source.width)]
    planes = cut.permute(2, 0, 1).unsqueeze(0).float()
    for size in ((cut.shape[0], width), (height, width)):
        planes = torch.nn.functional.interpolate(
            planes, size, mode=recipe.interpolation, align_corners=False, antialias=True
        )
        planes = planes.round_().clamp_(0, 255)
    centre = _centre(planes.squeeze(0).permute(1, 2, 0).byte(), recipe)
    return centre if recipe.channels == "rgb" else centre.flip(-1)


def _centre(rgb: Tensor, recipe: Recipe) -> Tensor:
    (top, rows), (left, columns) = centre_of(rgb.shape[0], rgb.shape[1], recipe)
    centre = rgb[rows, columns]
    padded = rgb.new_full(recipe.size.shape, recipe.pad)
    padded[top : top + centre.shape[0], left : left + centre.shape[1]] = centre
    return padded
