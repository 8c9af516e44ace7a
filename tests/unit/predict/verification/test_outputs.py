import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_app.artifact.activation import class_scores
from infer_app.artifact.specs import OutputSpec
from infer_app.base.domain import Output
from infer_app.predict.verification.outputs import KINDS

LABELS = ("cat", "dog", "<b>'; DROP TABLE</b>")


def entry(index, score, labels=LABELS):
    return {"label": labels[index] if labels else str(index), "index": index, "score": pytest.approx(score)}


SHARES, SCORES = np.float32([[0.1, 0.6, 0.3]]), np.float32([[0.6, 0.2, 0.9]])
SOFTMAX, SIGMOID = np.log(SHARES), -np.log(1 / SCORES - 1)
BY_SIGMOID, APPLIED = OutputSpec(activation="sigmoid"), OutputSpec(activation="sigmoid-applied")


@pytest.mark.parametrize(
    ("raw", "spec", "labels", "best", "details"),
    [
        (SOFTMAX, OutputSpec(top_k=2), LABELS, 1, {"top": [entry(1, 0.6), entry(2, 0.3)]}),
        (SOFTMAX, OutputSpec(), LABELS, 1, {"top": [entry(1, 0.6), entry(2, 0.3), entry(0, 0.1)]}),
        (SOFTMAX, OutputSpec(top_k=1), (), 1, {"top": [entry(1, 0.6, ())]}),  # without a label by its index
        (SHARES, OutputSpec(activation="none", top_k=1), LABELS, 1, {"top": [entry(1, 0.6)]}),
        (SIGMOID, BY_SIGMOID, LABELS, 2, {"labels": [entry(2, 0.9), entry(0, 0.6)], "threshold": 0.5}),
        (SIGMOID - 9, BY_SIGMOID, LABELS, 2, {"labels": [], "threshold": 0.5}),
        (SCORES, APPLIED, LABELS, 2, {"labels": [entry(2, 0.9), entry(0, 0.6)], "threshold": 0.5}),
    ],
)
def test_a_classification_has_the_best_class_and_others(raw, spec, labels, best, details):
    (output,) = KINDS[spec.kind].decode(raw, spec, labels)
    scores = class_scores(raw, spec.activation)
    assert (output.label, output.score) == ((labels or "012")[best], pytest.approx(float(scores.max())))
    assert json.loads(output.details) == details


RAW = {"vector": np.arange(6, dtype="<f4").tobytes(), "vector_dtype": "float32", "vector_dim": 6}


@pytest.mark.parametrize(
    ("raw", "spec", "outputs"),
    [
        ([[2.5]], OutputSpec("regression"), [Output(score=2.5)]),
        ([[2.5, -1.0]], OutputSpec("regression"), [Output(details='{"values": [2.5, -1.0]}')]),
        ([range(6)], OutputSpec("raw", shape=(2, 3)), [Output(details='{"shape": [2, 3]}', **RAW)]),
        ([[1e6]], OutputSpec("embedding", vector_dtype="float16"), [None]),  # too large
        *((np.zeros((0, 3)), OutputSpec(kind), []) for kind in ("classification", "embedding", "regression", "raw")),
    ],
)
def test_numbers_are_kept_by_the_kind_of_output(raw, spec, outputs):
    assert KINDS[spec.kind].decode(np.array(raw, np.float32), spec, LABELS) == outputs


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("float32", "<f4"), ("float16", "<f2")])
def test_an_embedding_is_little_endian_bytes(dtype, numpy_dtype):
    transposed = np.float32([[1.5, 4.0], [-2.0, 8.0]]).T  # not contiguous
    outputs = KINDS["embedding"].decode(transposed, OutputSpec("embedding", vector_dtype=dtype))
    expected = [np.array(row, dtype=numpy_dtype).tobytes() for row in ([1.5, -2.0], [4.0, 8.0])]
    assert outputs == [Output(vector=vector, vector_dtype=dtype, vector_dim=2) for vector in expected]


@pytest.mark.parametrize("kind", ["classification", "embedding", "regression", "raw"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_gives_none_and_leaves_the_others(kind, bad):
    sound = np.float32([[0.0, 1.0], [2.0, 1.0]])
    spoilt = np.float32([sound[0], [1.0, bad], sound[1]])
    first, none, last = KINDS[kind].decode(spoilt, OutputSpec(kind), ())
    assert none is None
    assert [first, last] == KINDS[kind].decode(sound, OutputSpec(kind), ())


@given(st.lists(st.lists(st.floats(-30, 30, width=32), min_size=4, max_size=4), min_size=1, max_size=6))
def test_a_row_means_the_same_alone_and_in_a_batch(rows):
    raw = np.float32(rows)
    together = KINDS["classification"].decode(raw, OutputSpec())
    alone = [output for row in raw for output in KINDS["classification"].decode(row[None], OutputSpec())]
    assert [item.label for item in together] == [item.label for item in alone]
    assert [item.score for item in together] == pytest.approx([item.score for item in alone])
