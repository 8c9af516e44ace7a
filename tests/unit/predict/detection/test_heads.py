"""Each head against outputs that are computed by hand."""

import numpy as np
import pytest

from infer_app.artifact.specs import HEADS, DetectionSpec
from infer_app.base.errors import ModelError
from infer_app.base.size import Size
from infer_app.predict.detection.heads import FAMILIES, comparable_parts, open_head

SIZE = Size(200, 100)


def decode(head, *outputs, activation="none", min_score=0.25):
    return [rows.tolist() for rows in open_head(DetectionSpec(head, min_score), activation, SIZE)(outputs)]


def test_the_outputs_of_every_head_that_is_named_can_be_read():
    assert HEADS.keys() == FAMILIES.keys()


CAT, LOW, NEGATIVE = [10.0, 20, 30, 40, 0.5, 2], [10.0, 20, 30, 40, 0.125, 1], [10.0, 20, 30, 40, 0.5, -1]
BOX, CENTRE = [1.0, 2, 3, 4], [50.0, 60, 20, 10]


@pytest.mark.parametrize(
    ("head", "outputs", "found"),
    [
        ("boxes", [[[CAT, [0.0] * 6, LOW], [NEGATIVE, [0.0] * 6, CAT]]], [[CAT], [CAT]]),  # without rows that fill up
        ("boxes", [[[BOX]], [[0.5]], [[7.0]]], [[[*BOX, 0.5, 7]]]),  # boxes, scores and classes by themselves
        ("boxes", [[[[*BOX, 0.5]]], [[7.0]]], [[[*BOX, 0.5, 7]]]),
        ("yolo", [[[*zip([*CENTRE, 0.5, 0.75], [*CENTRE, 0.125, 0.0], strict=True)]]], [[[40, 55, 60, 65, 0.75, 1]]]),
        ("yolo", [[[[number] for number in (*CENTRE, 0.5, 0.5)]]], [[[40, 55, 60, 65, 0.5, 0]]]),  # the first of equals
        ("yolo5", [[[[*CENTRE, 0.5, 0.25, 0.75], [*CENTRE, 0.25, 0.5, 0.0]]]], [[[40, 55, 60, 65, 0.375, 1]]]),
        *((head, [np.zeros((2, 9, 9), np.float32)], [[], []]) for head in ("yolo", "yolo5")),
    ],
)
def test_objects_of_each_head_by_hand(head, outputs, found):
    assert decode(head, *map(np.float32, outputs)) == found


def test_rows_of_yolox_are_offsets_in_cells_and_logarithms_of_sizes():
    rows = np.zeros((1, 64 + 16 + 4, 7), np.float32)  # 8x8 cells of 8 pixels, 4x4 of 16, 2x2 of 32
    rows[0, 8 * 3 + 5] = [0.5, 0.25, np.log(2), 0, 0.5, 0.5, 1]
    rows[0, 64 + 16 + 1] = [0.5, 0.5, 0, np.log(0.5), 1, 0.75, 0]
    find = open_head(DetectionSpec("yolox", 0.25), "none", Size(64, 64))
    np.testing.assert_allclose(find([rows])[0], [[36, 22, 52, 30, 0.5, 1], [32, 8, 64, 24, 0.75, 0]])
    with pytest.raises(ModelError, match="84 rows are not those of YOLOX's cells in 200x100"):
        decode("yolox", rows)
    assert find([np.zeros((1, 85, 6), np.float32)])[0].size == 0  # with a cell of 64 pixels


def test_detr_is_scaled_to_the_input_and_its_last_class_is_no_object():
    logits = np.log(np.float32([[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]]]))
    boxes = np.float32([[[0.5, 0.5, 0.25, 0.5], [0.5, 0.5, 1.0, 1.0]]])
    expected = [[[75, 25, 125, 75, 0.5, 0]]]
    for outputs in ((logits, boxes), (boxes, logits), (np.concatenate([logits, boxes], 2),)):
        (found,) = decode("detr", *outputs, activation="softmax")
        np.testing.assert_allclose(found, expected[0], atol=1e-4)


def test_detr_with_a_sigmoid_has_no_class_for_no_object():
    logits = -np.log(1 / np.float32([[[0.125, 0.5]]]) - 1)
    (found,) = decode("detr", logits, np.float32([[[0.5, 0.5, 1.0, 1.0]]]), activation="sigmoid")
    np.testing.assert_allclose(found, [[0, 0, 200, 100, 0.5, 1]], atol=1e-4)


def own(function, *outputs):
    return open_head(DetectionSpec("my:head"), "none", SIZE, function)(outputs)


def test_a_head_of_ones_own_takes_each_output_as_an_array():
    def head(boxes, scores):
        assert isinstance(boxes, np.ndarray)
        return [np.array([[*box, score, 0]]) for box, score in zip(boxes, scores, strict=True)]

    found = own(head, np.float32([[1.0, 2, 3, 4]]), np.float32([0.5]))
    assert [rows.tolist() for rows in found] == [[[1, 2, 3, 4, 0.5, 0]]]


def test_a_head_of_ones_own_gets_the_size_of_the_input_if_it_needs_it():
    """One that has a default, or takes an output by that name, is called as ever."""

    def asks(boxes, *, size):
        return [np.array([[0, 0, *size, 0.5, 0]])]

    def has_default(boxes, *, size=(3, 4)):
        return asks(boxes, size=size)

    def takes_output(size):
        return asks(None, size=size[0])

    outputs = np.float32([[5.0, 6.0]])
    found = [own(head, outputs)[0][0, 2:4].tolist() for head in (asks, has_default, takes_output)]
    assert found == [[*SIZE], [3, 4], [5, 6]]


@pytest.mark.parametrize("empty", [[], np.empty((0, 6))])
def test_a_head_of_ones_own_may_find_nothing(empty):
    assert own(lambda outputs: [empty], np.zeros((1, 4)))[0].shape == (0, 6)


@pytest.mark.parametrize(
    ("answer", "message"),
    [([], "0 results for a batch of 1"), ([np.zeros((2, 5))], r"\(2, 5\)"), ([np.zeros(6)], r"\(6,\)")],
)
def test_what_is_no_list_of_objects_is_an_error(answer, message):
    with pytest.raises(ValueError, match=message):
        own(lambda outputs: answer, np.zeros((1, 4)))


def parts(head, *outputs, activation="none"):
    return [part.tolist() for part in comparable_parts(outputs, DetectionSpec(head), activation)]


def test_pixels_and_scores_of_a_grid_are_compared_apart():
    columns = np.float32([[50.0, 60, 20, 10, 0.5, 0.75]]).T
    assert parts("yolo", columns[None]) == [[[50, 60, 20, 10]], [[0.5, 0.75]]]
    assert parts("yolo5", columns.T[None]) == [[[50, 60, 20, 10]], [[0.5, 0.75]]]


def test_of_networks_that_choose_only_the_scores_are_compared_whatever_their_order():
    one, other, filling = [1.0, 2, 3, 4, 0.5, 0], [5.0, 6, 7, 8, 0.25, 1], [0.0, 0, 0, 0, 0.75, -1]
    assert parts("boxes", np.float32([[one, other, filling]])) == [[[0, 0.25, 0.5]]]
    assert parts("boxes", np.float32([[filling, other, one]])) == [[[0, 0.25, 0.5]]]
    logits, boxes = -np.log(1 / np.float32([[[0.5, 0.125], [0.25, 0.125]]]) - 1), np.zeros((1, 2, 4), np.float32)
    assert parts("detr", logits, boxes, activation="sigmoid") == [[[0.25, 0.5]]]


def test_outputs_of_a_head_of_ones_own_are_compared_each_by_itself():
    assert parts("my:head", np.ones((1, 2, 2)), np.zeros((1, 1))) == [[[1, 1, 1, 1]], [[0]]]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_numbers_that_are_not_finite_or_nearly_so_give_no_warning(number):
    for shape in ((1, 7, 9), (1, 9, 7)):
        rows = np.full(shape, 0.5, np.float32)
        rows[:, ::2] = number
        for head in ("yolo", "yolo5"):
            decode(head, rows)
        decode("detr", rows[..., :-4], rows[..., -4:], activation="softmax")
