"""Compare the `cuda` executor with its slowest stage, and with a page-locked DataLoader with the same model.

Decode, copy and model are measured separately, then together with 1, 2, 4 … decode workers: a pipeline can't be faster
than the slowest of the three, so its share of that rate measures its overhead. The network is negligible (free) or a
ResNet-50 (blocks as in He et al. 2015, Deep Residual Learning for Image Recognition, table 1; random weights).
--device cpu runs it without a GPU, only to check that it works.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

import torch
from machine import describe_machine
from photos import collect_photos, find_photos
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.description import Description
from infer_app.artifact.recipe import Recipe
from infer_app.base.domain import Chunk, ImageRef
from infer_app.base.model_variants import CUDA_FP16, TORCHSCRIPT
from infer_app.base.read_limits import ReadLimits
from infer_app.base.size import Size
from infer_app.build.build_model import build_model
from infer_app.build.variants.add_gpu_variants import BuildTarget, add_gpu_variants
from infer_app.predict.executors import RingSpec, open_local_executor
from infer_app.predict.handlers.gpu_handlers import open_stream
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.images.decode.decoder import decode_image
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.predict.runtimes.fixed_batch import FixedBatch
from infer_app.predict.runtimes.open_variant import open_variant

RESULTS = Path(__file__).resolve().parent / "results"
SIZE = 224
LIMITS = 64_000_000
MEASURE_S = 2.0  # duration of the measurement of one part alone
TIMEOUT_S = 60.0
STAGES_OF_LOADERS = ("read", "decode", "transform", "collate")


@dataclass(frozen=True)
class Row:
    """Images per second of the executor, of its parts alone, and of the DataLoader."""

    network: str
    workers: int
    executor: float
    decode_limit: float
    copy_limit: float
    model_limit: float
    dataloader: float

    @property
    def share(self) -> float:
        return self.executor / min(self.decode_limit, self.copy_limit, self.model_limit)


class Bottleneck(nn.Module):
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            *(nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)),
        )
        same = stride == 1 and width_in == out
        self.around = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(width_in, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.relu(self.body(pixels) + self.around(pixels))


def resnet50() -> nn.Module:
    blocks: list[nn.Module] = []
    width_in = 64
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(depth):
            blocks.append(Bottleneck(width_in, width, stride if number == 0 else 1))
            width_in = 4 * width
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Free(nn.Module):
    """A network of negligible cost that reads a few pixels, so that they must have been copied."""

    def forward(self, pixels: Tensor) -> Tensor:
        return pixels[:, :, ::64, ::64].mean((2, 3))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"free": Free, "resnet50": resnet50}


class Photos(Dataset[Tensor]):
    """Data set of a tuned DataLoader: libjpeg-turbo and our transform, uint8."""

    def __init__(self, paths: list[Path], recipe: Recipe) -> None:
        self._paths = paths
        self._recipe = recipe

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> Tensor:
        data = self._paths[index].read_bytes()
        return transform(decode_image(data, self._recipe, LIMITS), self._recipe)


def main() -> None:
    flags = read_flags()
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        collect_photos(flags.photos or find_photos(), Path(folder) / "photos", flags.num_photos)
        paths = sorted((Path(folder) / "photos").iterdir())
        rows = []
        for network in flags.networks:
            artifact = build(network, Path(folder), flags.device)
            for row in measure(artifact, network, paths, flags):
                print(f"{row.network} {row.workers}: {row.executor:,.0f} images/s", flush=True)
                rows.append(row)
    table = render(rows)
    print(table)
    if flags.save:
        (RESULTS / "gpu.md").write_text(f"# The cuda executor and its slowest stage\n\n{table}\n")


def build(network: str, folder: Path, device: str) -> Artifact:
    torch.manual_seed(0)
    file = folder / f"{network}.ts"
    if not file.exists():
        with torch.no_grad():
            module = NETWORKS[network]().eval()
            torch.jit.trace(module, torch.zeros(2, 3, SIZE, SIZE)).save(str(file))
    plain = {"size": SIZE, "resize": 256, "interpolation": "bilinear", "mean": 0, "std": 1}
    artifact = build_model(Description(source=str(file), name=network, **plain), folder / "models")
    return add_gpu_variants(artifact, [CUDA_FP16], BuildTarget.local(), print) if device == "cuda" else artifact


def measure(artifact: Artifact, network: str, paths: list[Path], flags: argparse.Namespace) -> Iterator[Row]:
    variant = CUDA_FP16 if flags.device == "cuda" else TORCHSCRIPT
    model = open_variant(artifact, variant, flags.batch_size)
    model_limit, copy_limit = time_model(model, flags), time_copies(flags)
    for workers in flags.workers:
        executor, decode_limit = time_executor(artifact, variant, paths, workers, flags)
        dataloader = time_dataloader(model, artifact.manifest.recipe, paths, workers, flags)
        yield Row(network, workers, executor, decode_limit, copy_limit, model_limit, dataloader)


def time_executor(
    artifact: Artifact, variant: str, paths: list[Path], workers: int, flags: argparse.Namespace
) -> tuple[float, float]:
    """Return the executor's rate over the last three quarters, and the highest rate of its decoders by CPU time."""
    roots = (paths[0].parent,)
    handler = HandlerSpec((ModelSpec.of(artifact, variant),), ReadLimits(roots, 1 << 28), LIMITS)
    refs = [ImageRef(str(number), str(path)) for number, path in enumerate(paths)]
    firsts = range(0, len(refs), flags.batch_size)
    chunks = [Chunk(number, tuple(refs[first : first + flags.batch_size])) for number, first in enumerate(firsts)]
    done, began, cpu_seconds = 0, 0.0, 0.0
    since = len(paths) // 4
    with open_local_executor(
        handler, workers, TIMEOUT_S, RingSpec(flags.batch_size, Size.square(SIZE), (flags.device,))
    ) as executor:
        for result in executor.pool.run(chunks):
            if done < since <= done + len(result.predictions):
                began, since_done = time.perf_counter(), done + len(result.predictions)
            done += len(result.predictions)
            cpu_seconds += sum(result.cpu_seconds.get(stage, 0.0) for stage in STAGES_OF_LOADERS)
        rate = (done - since_done) / (time.perf_counter() - began)
    return rate, workers * done / cpu_seconds


def time_model(model: FixedBatch, flags: argparse.Namespace) -> float:
    """Return the model's rate on a batch that is already on the device."""
    batch = torch.randint(0, 255, (flags.batch_size, SIZE, SIZE, 3), dtype=torch.uint8, device=flags.device)
    with torch.inference_mode():
        return flags.batch_size * per_second(lambda: model(batch), flags.device)


def time_copies(flags: argparse.Namespace) -> float:
    """Return the rate of copies from a page-locked slot."""
    # Not from a ring: memory that this process unmaps while it is page-locked breaks the DataLoader after it.
    size = (flags.batch_size, SIZE, SIZE, 3)
    slot = torch.empty(size, dtype=torch.uint8, pin_memory=flags.device == "cuda")
    target = torch.empty_like(slot, device=flags.device)
    return flags.batch_size * per_second(partial(open_stream(flags.device).send, slot, target), flags.device)


def time_dataloader(
    model: FixedBatch, recipe: Recipe, paths: list[Path], workers: int, flags: argparse.Namespace
) -> float:
    """Return the DataLoader's rate over the last three quarters; it copies page-locked batches while the model runs."""
    is_gpu = flags.device == "cuda"
    photos = Photos(paths, recipe)
    loader = DataLoader(photos, flags.batch_size, num_workers=workers, pin_memory=is_gpu, prefetch_factor=4)
    done, since, began, since_done = 0, len(paths) // 4, 0.0, 0
    with torch.inference_mode():
        for batch in prefetched(loader) if is_gpu else loader:
            model(batch).cpu() if is_gpu else model(batch.numpy())
            done += len(batch)
            if done >= since and not since_done:
                began, since_done = time.perf_counter(), done
    return (done - since_done) / (time.perf_counter() - began)


def prefetched(loader: DataLoader[Tensor]) -> Iterator[Tensor]:
    copies, following = torch.cuda.Stream(), None  # type: ignore[no-untyped-call]
    for batch in loader:
        current = following
        with torch.cuda.stream(copies):
            following = batch.to("cuda", non_blocking=True)
        if current is not None:
            yield current
        torch.cuda.current_stream().wait_stream(copies)
        following.record_stream(torch.cuda.current_stream())
    if following is not None:
        yield following


def per_second(act: Callable[[], object], device: str) -> float:
    for _ in range(3):
        act()
    wait_for(device)
    times, began = 0, time.perf_counter()
    while time.perf_counter() - began < MEASURE_S:
        act()
        times += 1
    wait_for(device)
    return times / (time.perf_counter() - began)


def wait_for(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def render(rows: list[Row]) -> str:
    lines = ["| network | workers | images/s | decode · copy · model alone | share of the slowest | DataLoader |"]
    lines += ["|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        alone = f"{row.decode_limit:,.0f} · {row.copy_limit:,.0f} · {row.model_limit:,.0f}"
        peer = f"{row.dataloader:,.0f} ({row.executor / row.dataloader:.2f} ×)"
        cells = (row.network, str(row.workers), f"{row.executor:,.0f}", alone, f"{row.share:.0%}", peer)
        lines.append(f"| {' | '.join(cells)} |")
    machine = describe_machine() | describe_gpu()
    return "\n".join([*lines, "", f"{', '.join(machine.values())}; {date.today().isoformat()}"])


def describe_gpu() -> dict[str, str]:
    return {"gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"}


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=Path, help="a folder of JPEGs")
    parser.add_argument("-n", "--num-photos", type=int, default=20_000)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--save", action="store_true", help="write results/gpu.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
