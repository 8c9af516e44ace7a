"""Similarity of two stored outputs."""

import json
from typing import Any

import numpy as np


def cosine(one: bytes, one_dtype: str, other: bytes, other_dtype: str) -> float | None:
    """Return the cosine similarity of two stored vectors, -1 to 1; None if their lengths differ or one is all zeros."""
    a, b = (vector_of(*side).astype(np.float64) for side in ((one, one_dtype), (other, other_dtype)))
    if a.shape != b.shape:
        return None
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / length if length else None


def mean_difference(one: list[float], other: list[float]) -> float | None:
    """Return the mean absolute difference of two regression outputs; None if their lengths differ."""
    if len(one) != len(other) or not one:
        return None
    return float(np.abs(np.subtract(one, other)).mean())


def numbers_of(score: float | None, output: Any) -> list[float]:
    """Return the numbers of a regression: its score, or the values of its output."""
    details = json.loads(output) if isinstance(output, str) else output
    return [score] if score is not None else list((details or {}).get("values", ()))


def vector_of(stored: bytes, dtype: str | None) -> np.ndarray:
    """Return the numbers of a stored vector, in the dtype in which they are stored."""
    return np.frombuffer(stored, "<f2" if dtype == "float16" else "<f4")
