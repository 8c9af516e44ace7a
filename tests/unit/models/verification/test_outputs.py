import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infer_app.domain import Output
from infer_app.models.artifact.specs import OutputSpec
from infer_app.models.verification.outputs import decode_outputs

LABELS = ("cat", "dog", "<b>'; DROP TABLE</b>")


def test_softmax_gives_the_best_class_and_the_top_k():
    raw = torch.log(torch.tensor([[0.1, 0.6, 0.3]]))
    (output,) = decode_outputs(raw, OutputSpec(top_k=2), LABELS)
    assert output is not None
    assert output.label == "dog"
    assert output.score == pytest.approx(0.6)
    assert json.loads(output.details) == {
        "top": [
            {"label": "dog", "index": 1, "score": pytest.approx(0.6)},
            {"label": LABELS[2], "index": 2, "score": pytest.approx(0.3)},
        ]
    }


def test_top_k_is_at_most_the_number_of_classes():
    (output,) = decode_outputs(torch.zeros(1, 3), OutputSpec(top_k=5), LABELS)
    assert output is not None
    assert len(json.loads(output.details)["top"]) == 3


def test_a_class_without_a_label_is_called_by_its_index():
    (output,) = decode_outputs(torch.tensor([[0.0, 0.0, 9.0]]), OutputSpec())
    assert output is not None
    assert output.label == "2"


def test_activation_none_takes_probabilities_as_they_are():
    (output,) = decode_outputs(torch.tensor([[0.25, 0.75]]), OutputSpec(activation="none"), ("a", "b"))
    assert output is not None
    assert (output.label, output.score) == ("b", 0.75)


def test_sigmoid_lists_all_labels_over_the_threshold_best_first():
    raw = torch.logit(torch.tensor([[0.6, 0.2, 0.9]], dtype=torch.float64)).float()
    (output,) = decode_outputs(raw, OutputSpec(activation="sigmoid", threshold=0.5), LABELS)
    assert (output.label, output.score) == (LABELS[2], pytest.approx(0.9))
    assert json.loads(output.details) == {
        "labels": [
            {"label": LABELS[2], "index": 2, "score": pytest.approx(0.9)},
            {"label": "cat", "index": 0, "score": pytest.approx(0.6)},
        ],
        "threshold": 0.5,
    }


def test_sigmoid_keeps_the_best_label_when_none_is_over_the_threshold():
    (output,) = decode_outputs(torch.full((1, 3), -3.0), OutputSpec(activation="sigmoid"), LABELS)
    assert output is not None
    assert (output.label, json.loads(output.details)["labels"]) == ("cat", [])


def test_regression_of_one_number_is_the_score():
    assert decode_outputs(torch.tensor([[2.5]]), OutputSpec("regression")) == [Output(score=2.5)]


def test_regression_of_several_numbers_lists_them():
    outputs = decode_outputs(torch.tensor([[2.5, -1.0]]), OutputSpec("regression"))
    assert outputs == [Output(details='{"values": [2.5, -1.0]}')]


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("float32", "<f4"), ("float16", "<f2")])
def test_an_embedding_is_little_endian_bytes(dtype, numpy_dtype):
    transposed = torch.tensor([[1.5, 4.0], [-2.0, 8.0]]).T  # not contiguous
    outputs = decode_outputs(transposed, OutputSpec("embedding", vector_dtype=dtype))
    expected = [np.array(row, dtype=numpy_dtype).tobytes() for row in ([1.5, -2.0], [4.0, 8.0])]
    assert outputs == [Output(vector=vector, vector_dtype=dtype, vector_dim=2) for vector in expected]


def test_raw_tells_its_shape():
    (output,) = decode_outputs(torch.arange(6.0).view(1, 6), OutputSpec("raw", shape=(2, 3)))
    assert output == Output(
        details='{"shape": [2, 3]}', vector=np.arange(6, dtype="<f4").tobytes(), vector_dtype="float32", vector_dim=6
    )


@pytest.mark.parametrize("kind", ["classification", "embedding", "regression", "raw"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_gives_none_and_leaves_the_others(kind, bad):
    sound = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    spoilt = torch.stack([sound[0], torch.tensor([1.0, bad]), sound[1]])
    first, none, last = decode_outputs(spoilt, OutputSpec(kind), ())
    assert none is None
    assert [first, last] == decode_outputs(sound, OutputSpec(kind), ())


def test_an_embedding_too_large_for_float16_gives_none():
    assert decode_outputs(torch.tensor([[1e6]]), OutputSpec("embedding", vector_dtype="float16")) == [None]


@pytest.mark.parametrize("kind", ["classification", "embedding", "regression", "raw"])
def test_no_rows_give_no_outputs(kind):
    assert decode_outputs(torch.zeros(0, 3), OutputSpec(kind), LABELS) == []


@given(st.lists(st.lists(st.floats(-30, 30, width=32), min_size=4, max_size=4), min_size=1, max_size=6))
def test_a_row_means_the_same_alone_and_in_a_batch(rows):
    raw = torch.tensor(rows)
    together = decode_outputs(raw, OutputSpec())
    alone = [output for row in raw for output in decode_outputs(row.unsqueeze(0), OutputSpec())]
    assert [item.label for item in together] == [item.label for item in alone]
    assert [item.score for item in together] == pytest.approx([item.score for item in alone])
