"""The kinds of output: each is a file beside this one, which says what differs by it."""

from infer_app.artifact.artifact import Artifact
from infer_app.base.domain import OutputKind
from infer_app.predict.verification.classification import Classification
from infer_app.predict.verification.detection import Detection
from infer_app.predict.verification.regression import Regression
from infer_app.predict.verification.vectors import Decode, Vectors

KINDS: dict[str, Vectors] = {
    OutputKind.CLASSIFICATION: Classification(),
    OutputKind.DETECTION: Detection(),
    OutputKind.EMBEDDING: Vectors(),
    OutputKind.REGRESSION: Regression(),
    OutputKind.RAW: Vectors(),
}


def open_decoder(artifact: Artifact) -> Decode:
    """Return what decodes the rows of a model."""
    return KINDS[artifact.manifest.output.kind].open_decoder(artifact)
