"""Measure where the CPU time of one photo of 12 megapixels goes, and what other decoders would take.

Everything runs in one thread, photo by photo and in turns; figures are medians of CPU milliseconds a photo. Decoders
whose package is missing are left out: pip install simplejpeg opencv-python-headless av

    python benchmarks/large_photos.py -n 20 --save
"""

from __future__ import annotations

import argparse
import hashlib
import io
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from itertools import cycle
from pathlib import Path
from statistics import median

import numpy as np
import turbojpeg
from machine import describe_machine
from photos import collect_large_photos, find_photos
from PIL import Image, features

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infer_app.artifact.recipe import Recipe
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.predict.images.decode.capture_time import capture_time
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.decode.jpeg_structure import check_scans, parse_jpeg_header
from infer_app.predict.images.read.read_image import read_image
from infer_app.predict.images.transform.to_pixels import transform

RESULTS = Path(__file__).resolve().parent / "results" / "large-photos.md"
SCALED = Recipe(kind="crop-resize", size=Size.square(224), crop=0.875, interpolation="bicubic", decode="scaled")
MAX_PIXELS = 1 << 26
MAX_SCANS = 500
SCALE = 4  # at which 12 megapixels are decoded for an input of 224
TURBO = turbojpeg.TurboJPEG()

Step = Callable[[bytes], object]


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        photos = Path(folder) / "photos"
        collect_large_photos(flags.photos or find_photos(), photos, flags.n)
        files = {path: path.read_bytes() for path in sorted(photos.iterdir())}
        progressive = {path: as_progressive(data) for path, data in files.items()}
        stages = measure(our_stages(photos), files, flags.rounds)
        more = measure(of_progressive(), progressive, 1)
        others = measure(decoders(), files, flags.rounds)
    size = sum(map(len, files.values())) / len(files) / 1e6
    machine = describe_machine()
    title = f"{len(files)} photos of 12 megapixels, {size:.1f} MB on average"
    lines = [f"# {title}", "", "| stage | CPU ms a photo |", "|---|---:|", *rows(stages | more), ""]
    lines += [f"| decoder, at 1/{SCALE} unless said | CPU ms a photo |", "|---|---:|", *rows(others), ""]
    lines += [f"{machine['processor']} ({machine['instructions']}), one thread; {date.today()}"]
    print("\n".join(lines))
    if flags.save:
        RESULTS.write_text("\n".join([*lines, "", "`python benchmarks/large_photos.py`", ""]))


def our_stages(folder: Path) -> dict[str, Step]:
    limits, paths = ReadLimits((folder,), 1 << 30), cycle(sorted(folder.iterdir()))
    pictures: list[object] = []

    def decode(data: bytes) -> None:
        pictures[:] = [decode_image(data, SCALED, MAX_PIXELS)]

    return {
        "read, with the checksum": lambda _: read_image(str(next(paths)), limits),
        "of that the checksum (sha256)": lambda data: hashlib.sha256(data).hexdigest(),
        "capture time": capture_time,
        "decode": decode,
        "of that the header": parse_jpeg_header,
        "of that libjpeg-turbo": lambda data: TURBO.decode(data, turbojpeg.TJPF_RGB, (1, SCALE)),
        "transform": lambda _: transform(pictures[0], SCALED, None),  # type: ignore[arg-type]
    }


def of_progressive() -> dict[str, Step]:
    return {
        "decode, of a progressive photo": lambda data: decode_image(data, SCALED, MAX_PIXELS),
        "of that the search for its scans": lambda data: check_scans(data, parse_jpeg_header(data), MAX_SCANS),
    }


def decoders() -> dict[str, Step]:
    """Return the decoders that are installed, by name and version."""
    found: dict[str, Step] = {
        "the system's libjpeg-turbo": lambda data: TURBO.decode(data, turbojpeg.TJPF_RGB, (1, SCALE)),
        "the same, at 1/8": lambda data: TURBO.decode(data, turbojpeg.TJPF_RGB, (1, 8)),
        "the same, whole": lambda data: TURBO.decode(data, turbojpeg.TJPF_RGB),
        f"Pillow's libjpeg-turbo {features.version('libjpeg_turbo')}": _with_pillow,
    }
    with suppress(ImportError):
        import simplejpeg

        found[f"simplejpeg {simplejpeg.__version__}, whole"] = lambda data: simplejpeg.decode_jpeg(data, "RGB")
    with suppress(ImportError):
        import cv2

        cv2.setNumThreads(1)
        found[f"OpenCV {cv2.__version__}"] = lambda data: cv2.imdecode(
            np.frombuffer(data, np.uint8), cv2.IMREAD_REDUCED_COLOR_4
        )
    with suppress(ImportError):
        import av

        def with_ffmpeg(data: bytes) -> object:
            decoder = av.CodecContext.create("mjpeg", "r")
            decoder.thread_count, decoder.options = 1, {"lowres": "2"}  # a quarter of each side
            return [*decoder.decode(av.Packet(data)), *decoder.decode(None)][0].to_ndarray()

        found[f"FFmpeg (PyAV {av.__version__}), without a change of colours"] = with_ffmpeg
    return found


def measure(steps: dict[str, Step], files: dict[Path, bytes], rounds: int) -> dict[str, float]:
    """Return the median of the CPU milliseconds that each step takes for a photo; the steps take turns."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for data in files.values():
            for name, step in steps.items():
                began = time.process_time()
                step(data)
                taken[name].append(1e3 * (time.process_time() - began))
    return {name: median(some) for name, some in taken.items()}


def as_progressive(data: bytes) -> bytes:
    written = io.BytesIO()
    with Image.open(io.BytesIO(data)) as image:
        image.save(written, "JPEG", quality=90, progressive=True)
    return written.getvalue()


def rows(figures: dict[str, float]) -> list[str]:
    return [f"| {name} | {ms:.2f} |" for name, ms in figures.items()]


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=20)
    parser.add_argument("--photos", type=Path, help="folder of JPEG files, of which mosaics are made")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write results/large-photos.md")
    return parser.parse_args()


def _with_pillow(data: bytes) -> object:
    with Image.open(io.BytesIO(data)) as image:
        image.draft("RGB", (image.width // SCALE, image.height // SCALE))
        return np.asarray(image)


if __name__ == "__main__":
    main()
