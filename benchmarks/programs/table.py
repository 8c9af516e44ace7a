"""The database of every contestant: source of the images and target of the predictions, a transaction per batch."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime


class Table:
    """An SQLite file with the table infer_images, and the table predictions, which is created."""

    def __init__(self, path: str) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE predictions"
            " (image_id INTEGER PRIMARY KEY, label TEXT, score REAL, output TEXT, created_at TEXT)"
        )

    def images(self, limit: int) -> list[tuple[int, str]]:
        """Return the (id, location) of each image."""
        select = "SELECT id, location FROM infer_images ORDER BY id LIMIT ?"
        return self._database.execute(select, (limit,)).fetchall()

    def write(self, ids: list[int], classes: list[list[int]], scores: list[list[float]]) -> None:
        """Write a batch in one transaction."""
        now = datetime.now(UTC).isoformat()
        rows = [
            (
                image_id,
                *((str(best[0]), top[0]) if best else (None, None)),
                json.dumps(list(zip(best, top, strict=True))),
                now,
            )
            for image_id, best, top in zip(ids, classes, scores, strict=True)
        ]
        with self._database:
            self._database.executemany("INSERT INTO predictions VALUES (?, ?, ?, ?, ?)", rows)
