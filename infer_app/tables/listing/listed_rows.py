"""Compares rows of the user's table with what the list has of an interval of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np


def find_sorted(sorted_keys: np.ndarray, wanted: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of each key a place among the sorted ones, int64 (N,), and whether the key is there, bool (N,)."""
    keys = np.asarray(wanted, sorted_keys.dtype)
    if not len(sorted_keys):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), bool)
    places = np.searchsorted(sorted_keys, keys).clip(max=len(sorted_keys) - 1)
    return places, sorted_keys[places] == keys


class ListedRows:
    """Holds what the list has of an interval of time, in 26 bytes a picture."""

    TYPE = np.dtype([("key", "i8"), ("time", "i8"), ("camera", "i8")])  # two are hashes

    def __init__(self, rows: np.ndarray, since: datetime | None, until: datetime | None) -> None:
        self._rows = rows[np.argsort(rows["key"])]
        self._keys = self._rows["key"]
        self._is_at_time, self._is_same = np.zeros((2, len(rows)), bool)
        self._since, self._until = since, until

    def differing(self, keys: Sequence[int], times: Sequence[int], cameras: Sequence[int]) -> list[bool]:
        """Return for each row of the table whether the list has it otherwise or not at all."""
        if not len(self._rows):
            return [True] * len(keys)
        places, is_known = find_sorted(self._keys, keys)
        is_at_time = is_known & (self._rows["time"][places] == np.asarray(times, np.int64))
        is_same = is_at_time & (self._rows["camera"][places] == np.asarray(cameras, np.int64))
        self._is_at_time[places[is_at_time]] = True
        self._is_same[places[is_same]] = True
        is_other: list[bool] = (~is_same).tolist()
        return is_other

    def has(self, key: int) -> bool:
        return self._place_of(key) is not None

    def is_at_time(self, key: int) -> bool:
        """Return whether the table has a row of a picture at the time that the list has."""
        place = self._place_of(key)
        return place is not None and bool(self._is_at_time[place])

    def is_same(self, key: int) -> bool:
        """Return whether it has one with the camera that the list has, too."""
        place = self._place_of(key)
        return place is not None and bool(self._is_same[place])

    def covers(self, time: datetime) -> bool:
        return (self._since is None or time >= self._since) and (self._until is None or time < self._until)

    def _place_of(self, key: int) -> int | None:
        places, is_known = find_sorted(self._keys, [key])
        return int(places[0]) if is_known[0] else None

    def unseen(self) -> np.ndarray:
        """Return the keys of the pictures of which the table has no row at the time that the list has, int64 (N,)."""
        return self._keys[~self._is_at_time]
