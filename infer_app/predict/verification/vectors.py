"""Decode, compare and describe outputs as embeddings and raw outputs need it; other kinds override it."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Output
from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.predict.detection.object_decoder import finite_rows
from infer_app.predict.verification.parity import Parity
from infer_app.predict.verification.share import Share

# From rows, (n, D), and the sizes of the upright pictures, which only a detector needs, to an Output for each row; None
# for a row with a NaN or an infinity. Raises ValueError for a score that is not between 0 and 1, and what a head of the
# user's own raises.
Decode = Callable[[np.ndarray, Sequence[Size | None]], list[Output | None]]

GOLDEN_FAILED = "golden check failed: "
_HINT = "nothing was written; try `infer model verify`, then rebuild the model or the variant on this machine"


class ComparedRows(NamedTuple):
    """The outputs of a model for some images, (n, D) each, as they are expected and as they are."""

    artifact: Artifact
    expected: np.ndarray
    actual: np.ndarray
    numbers: Sequence[int] = ()  # of the images, if they are golden


class Vectors:
    """A kind of output whose numbers have a direction and no label."""

    min_agreement = 0.97  # the share that another variant must keep

    def open_decoder(self, artifact: Artifact) -> Decode:
        """Return what decodes the rows of a model."""
        spec, labels = artifact.manifest.output, artifact.labels  # read now: a changed file is no image's fault
        return lambda raw, pictures: self.decode(raw, spec, labels)

    def decode(self, raw: np.ndarray, spec: OutputSpec, labels: Sequence[str] = ()) -> list[Output | None]:
        """Return one Output for each row, (n, D) float32; None for a row with a NaN or an infinity.

        Operations are on the whole batch; only values that are kept become Python objects.
        """
        with np.errstate(over="ignore"):  # float16 overflows to infinity
            vectors = raw.astype("<f2" if spec.vector_dtype == "float16" else "<f4", order="C", copy=False)
        details = json.dumps({} if spec.shape is None else {"shape": list(spec.shape or (1,))})
        rows = zip(finite_rows(vectors), vectors, strict=True)
        return [
            Output(details=details, vector=row.tobytes(), vector_dtype=spec.vector_dtype, vector_dim=raw.shape[1])
            if finite
            else None
            for finite, row in rows
        ]

    def classes(self, rows: np.ndarray, spec: OutputSpec) -> np.ndarray | None:
        """Return the part of a network's outputs that the activation is for, (…, classes); None if it is for none."""
        return None

    def comparable(self, rows: ComparedRows) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the numbers to compare, float64, and what their difference is relative to."""
        expected, actual = rows.expected.astype(np.float64), rows.actual.astype(np.float64)
        return expected, actual, float(np.abs(expected).max())

    def compare(self, rows: ComparedRows, min_iou: float) -> tuple[dict[str, Any], np.ndarray]:
        """Return the fields of a Parity that not all kinds have, and the differences of the scores, (n,)."""
        return {"label_agreement": float((rows.expected.argmax(1) == rows.actual.argmax(1)).mean())}, np.empty(0)

    def check_model(self, rows: ComparedRows, variant: str) -> None:
        """Raise ModelChanged if the outputs of a variant for the golden pixels mean something else."""

    def check_pixels(self, rows: ComparedRows, margin: float, largest: float) -> None:
        """Raise PixelsChanged if the outputs for the pixels as loaded mean something else.

        `margin` is relative to the largest of all golden outputs.
        """

    def agreement(self, manifest: Manifest, parity: Parity) -> float:
        """Return what must reach the minimum.

        A single number has no direction: of it, the worst difference relative to the largest output is taken from 1.
        """
        return parity.cosine if manifest.num_outputs > 1 else 1 - parity.relative_difference

    def share(self, parity: Parity) -> Share | None:
        """Return the agreement as a share of what was compared; None if nothing is counted."""
        return None

    def describe_kept(self, manifest: Manifest, parity: Parity) -> str:
        """Describe how much of the outputs another variant keeps."""
        if share := self.share(parity):
            return f"keeps {share}"
        if manifest.num_outputs == 1:
            return f"differs by {parity.worst_difference:.2g} at worst"
        return f"cosine {parity.cosine:.4f} at worst"


def failed(what: str, error: type[ModelError], number: int | None = None) -> ModelError:
    """Return the error of the golden check, or of the image with this number, from 0."""
    of_image = "" if number is None else f"image {number + 1}: "
    return error(f"{GOLDEN_FAILED}{of_image}{what}", _HINT)
