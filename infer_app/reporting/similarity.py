"""How alike two stored outputs are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def cosine(one: bytes, one_dtype: str, other: bytes, other_dtype: str) -> float | None:
    """Of two stored vectors, -1 to 1; None where they have not one length, or one of them is all zeros."""
    a, b = _numbers(one, one_dtype), _numbers(other, other_dtype)
    if a.shape != b.shape:
        return None
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else None


def mean_difference(one: list[float], other: list[float]) -> float | None:
    """Mean absolute difference of two regressions' numbers; None where they have not as many."""
    if len(one) != len(other) or not one:
        return None
    return float(np.abs(np.subtract(one, other)).mean())


def numbers_of(score: float | None, output: Any) -> list[float]:
    """A regression's numbers: its score, or the values of its output."""
    details = json.loads(output) if isinstance(output, str) else output
    return [score] if score is not None else list((details or {}).get("values", ()))


def _numbers(vector: bytes, dtype: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.frombuffer(vector, "<f2" if dtype == "float16" else "<f4").astype(np.float64)
