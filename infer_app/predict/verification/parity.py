"""Measure how far a variant's outputs are from the expected ones."""

from dataclasses import asdict, dataclass

import numpy as np

_SHORTEST = 1e-8  # length of a row, so that none is divided by 0


@dataclass(frozen=True)
class Parity:
    """How near outputs are to the expected ones."""

    num_images: int
    cosine: float  # of the worst image
    worst_difference: float  # absolute; of a detector relative to the largest of its part of the outputs
    relative_difference: float  # worst_difference divided by the largest expected output
    label_agreement: float | None = None  # share of images whose largest output is the same, 0-1; None for detectors
    worst_score_difference: float | None = None  # of the expected label or objects, 0-1; None without classes
    p99_score_difference: float | None = None  # its 99th percentile
    num_objects: int | None = None  # expected from COMPARED_SCORE on; None unless the model detects objects
    object_agreement: float | None = None  # share that is kept, or 1 less the share that is new; None: no objects
    best_kept: float | None = None  # share of the golden images' best objects; None: too few, or not compared

    def to_json(self) -> dict[str, object]:
        return {key: value for key, value in asdict(self).items() if value is not None}


@np.errstate(over="ignore", invalid="ignore")
def cosines(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Return the cosine of each row, (n,); 1 for rows of a single number, which have no direction."""
    if expected.shape[1] == 1:
        return np.where(np.isfinite(actual), 1.0, np.nan).ravel()
    a, b = expected.astype(np.float64), actual.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1).clip(_SHORTEST) * np.linalg.norm(b, axis=1).clip(_SHORTEST)
    # No direction either: a detector that finds nothing.
    return np.where(a.any(1) | b.any(1), (a * b).sum(1) / lengths, 1.0)
