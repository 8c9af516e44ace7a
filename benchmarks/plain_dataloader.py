"""What one writes without infer_app: a torch DataLoader over the rows of a table, predictions into another table.

Nothing here is slow on purpose, and nothing guards against a broken image, a crash or a second start.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
from datetime import UTC, datetime

import numpy as np
import torch
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

SIZE, CROP = 224, 0.875
MEAN, STD = 127.0, 128.0
TOP_K = 5

Sample = tuple[int, torch.Tensor]


class Images(Dataset[Sample]):
    """(id, pixels) of each row; pixels are (3, SIZE, SIZE) float32."""

    def __init__(self, rows: list[tuple[int, str]]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        image_id, location = self.rows[index]
        with Image.open(location) as image:
            ImageOps.exif_transpose(image, in_place=True)
            rgb = crop_resize(image.convert("RGB"))
        pixels = torch.from_numpy(np.array(rgb)).permute(2, 0, 1).float()
        return image_id, (pixels - MEAN) / STD


def crop_resize(rgb: Image.Image) -> Image.Image:
    """EfficientNet's recipe: the centre square, then bicubic."""
    square = int(CROP * min(rgb.size))
    left, top = ((side - square + 1) // 2 for side in rgb.size)
    return rgb.crop((left, top, left + square, top + square)).resize((SIZE, SIZE), Image.Resampling.BICUBIC)


def main() -> None:
    flags = read_flags()
    if flags.threads:
        torch.set_num_threads(flags.threads)
    database = sqlite3.connect(flags.database)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=NORMAL")
    database.execute(
        "CREATE TABLE predictions (image_id INTEGER PRIMARY KEY, label TEXT, score REAL, output TEXT, created_at TEXT)"
    )
    rows = database.execute("SELECT id, location FROM infer_images ORDER BY id LIMIT ?", (flags.limit,)).fetchall()
    loader = DataLoader(Images(rows), batch_size=flags.batch_size, num_workers=flags.workers)
    model = torch.jit.load(flags.model).eval()
    with torch.inference_mode():
        for ids, pixels in loader:
            top = model(pixels).softmax(dim=1).topk(TOP_K, dim=1)
            write(database, ids.tolist(), top.indices.tolist(), top.values.tolist())


def write(database: sqlite3.Connection, ids: list[int], classes: list[list[int]], scores: list[list[float]]) -> None:
    """One transaction for the batch."""
    now = datetime.now(UTC).isoformat()
    rows = [
        (image_id, str(best[0]), top[0], json.dumps(list(zip(best, top, strict=True))), now)
        for image_id, best, top in zip(ids, classes, scores, strict=True)
    ]
    with database:
        database.executemany("INSERT INTO predictions VALUES (?, ?, ?, ?, ?)", rows)


def read_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database")
    parser.add_argument("model", help="a TorchScript file")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="of the model; 0 is torch's default")
    parser.add_argument("--limit", type=int, default=-1, help="images; -1 is all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
