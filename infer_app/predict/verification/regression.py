"""Numbers of an image, each of which means something by itself."""

import json
from collections.abc import Sequence

import numpy as np

from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Output
from infer_app.predict.detection.object_decoder import finite_rows
from infer_app.predict.verification.vectors import Vectors


class Regression(Vectors):
    """A kind of output that is a number, the score, or several."""

    def decode(self, raw: np.ndarray, spec: OutputSpec, labels: Sequence[str] = ()) -> list[Output | None]:
        rows = zip(finite_rows(raw), raw.tolist(), strict=True)
        if raw.shape[1] == 1:
            return [Output(score=score) if finite else None for finite, (score,) in rows]
        return [Output(details=json.dumps({"values": values})) if finite else None for finite, values in rows]
