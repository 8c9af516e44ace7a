"""Compare the answers of the user's own function with the program's, image by image."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeGuard, TypeVar

import numpy as np

from infer_app.artifact.activation import class_scores
from infer_app.base.domain import Broken, Prediction
from infer_app.base.printing import counted
from infer_app.build.check.check_report import (
    CheckReport,
    ClassAgreement,
    DifferentAnswer,
    Failure,
    ScoreComparison,
    TimedBlock,
)

Answer = TypeVar("Answer")

ROUNDING = 0.01  # of probabilities that were computed in fp16, or printed
MOVED = 0.1  # difference of scores; two decoders and two resizes of one recipe stay well below it
ENOUGH_FOR_A_RATE = 200  # timed images; fewer are no measure of speed


def compare_answers(
    theirs: Sequence[tuple[str, object]],
    ours: Sequence[Prediction | Broken],
    labels: Sequence[str] = (),
    *,
    blocks: Sequence[TimedBlock] = (),
    activation: str = "none",
    are_outputs: bool = False,
) -> CheckReport:
    """Compare answers by path, which is the location of the program's image reference.

    An answer of the user's function is scores (one number for each class), a label, a class index, a label with its
    score, or the exception that the function raised. An image with only one answer counts neither as agreement nor as
    disagreement. `blocks` are the images that were timed, by which the rates are computed. Scores may be the network's
    outputs, before its `activation`; with `are_outputs` they certainly are.
    """
    compared, of_images = match_answers(
        theirs, ours, lambda answer: (answered_label(answer, labels), _scores(answer)), blocks
    )
    disagreements = [
        DifferentAnswer(item.ref.location, label, item.output.label or "", item.output.score or 0.0)
        for (label, _), item in compared
        if label != item.output.label
    ]
    same = [
        (scores, item.output.score)
        for (label, scores), item in compared
        if scores is not None and item.output.score is not None and label == item.output.label
    ]
    return CheckReport(
        agreement=1 - len(disagreements) / len(compared) if compared else None,
        disagreements=tuple(sorted(disagreements, key=lambda item: (-item.our_score, item.path))),
        num_labels=len({item.output.label for _, item in compared}),
        classes=_count_classes([(label, item.output.label or "") for (label, _), item in compared]),
        scores=_compare_scores(same, activation, are_outputs) if same else None,
        **of_images,
    )


def _count_classes(pairs: Sequence[tuple[str, str]]) -> tuple[ClassAgreement, ...]:
    """Count the labels of each side, and of the pairs that are the same."""
    theirs, ours = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    same = Counter(a for a, b in pairs if a == b)
    classes = [ClassAgreement(label, theirs[label], ours[label], same[label]) for label in theirs | ours]
    return tuple(sorted(classes, key=lambda one: (one.num_same - max(one.num_theirs, one.num_ours), one.label)))


def _compare_scores(
    pairs: Sequence[tuple[np.ndarray | float, float]], activation: str, are_outputs: bool
) -> ScoreComparison:
    """Compare the best of their scores, (D,) for each image, or the one that they give, with ours."""
    rows = [theirs for theirs, _ in pairs if isinstance(theirs, np.ndarray)]
    is_activated = not are_outputs and all(_are_probabilities(row, activation) for row in rows)
    to_scores = partial(class_scores, activation="none" if is_activated else activation)
    best = [to_scores(theirs[None]).max() if isinstance(theirs, np.ndarray) else theirs for theirs, _ in pairs]
    differences = np.abs(np.array(best) - [score for _, score in pairs])
    mean, median, worst = map(float, (differences.mean(), np.median(differences), differences.max()))
    return ScoreComparison(len(pairs), mean, median, worst, int((differences > MOVED).sum()))


def _are_probabilities(scores: np.ndarray, activation: str) -> bool:
    """Return whether scores look as if the activation was applied; outputs of a network have other ranges."""
    in_range = bool(((scores >= -ROUNDING) & (scores <= 1 + ROUNDING)).all())
    return in_range and (activation != "softmax" or abs(scores.sum() - 1) < ROUNDING)


def match_answers(
    theirs: Sequence[tuple[str, object]],
    ours: Sequence[Prediction | Broken],
    read: Callable[[object], Answer],
    blocks: Sequence[TimedBlock],
) -> tuple[list[tuple[Answer, Prediction]], dict[str, Any]]:
    """Return the images with both answers, and the fields of a report that tell of all images and of the speed.

    `read` understands an answer of the user's function, and raises an exception for what is none.
    """
    answers: dict[str, Answer] = {}
    failures: list[Failure] = []
    for path, answer in theirs:
        try:
            if isinstance(answer, BaseException):
                raise answer
            answers[path] = read(answer)
        except Exception as error:  # an answer may be anything
            failures.append(Failure(path, f"{type(error).__name__}: {error}"))
    compared = [
        (answers[item.ref.location], item)
        for item in ours
        if isinstance(item, Prediction) and item.ref.location in answers
    ]
    broken = (item for item in ours if isinstance(item, Broken))
    return compared, {
        "num_images": len({path for path, _ in theirs} | {item.ref.location for item in ours}),
        "num_compared": len(compared),
        "their_failures": tuple(failures),
        "our_rejections": tuple(Failure(item.ref.location, item.problem) for item in broken),
        **_rates(blocks),
    }


def _rates(blocks: Sequence[TimedBlock]) -> dict[str, object]:
    """Return the fields of a report that tell the speed of both sides."""
    num_timed, lost_seconds = sum(one.num_images for one in blocks), sum(one.lost_seconds for one in blocks)
    their_seconds, our_seconds = sum(one.their_seconds for one in blocks), sum(one.our_seconds for one in blocks)
    ratios = [one.their_seconds / one.our_seconds for one in blocks] if num_timed >= ENOUGH_FOR_A_RATE else []
    return {
        "their_images_per_second": num_timed / their_seconds if blocks else None,
        "our_images_per_second": num_timed / our_seconds if blocks else None,
        "ratio": their_seconds / our_seconds if ratios else None,
        "num_timed": num_timed,
        "ratio_range": (min(ratios), max(ratios)) if ratios else None,
        "taken_by_others": lost_seconds / (their_seconds + our_seconds) if blocks else None,
    }


def answered_label(answer: object, labels: Sequence[str] = ()) -> str:
    """Return the label of an answer. Raises ValueError if it is not valid."""
    if isinstance(answer, str):
        return answer
    if _has_label(answer):
        return answer[0]
    if answer is None or isinstance(answer, (bool, bytes, dict)):
        raise ValueError(f"a {type(answer).__name__} is neither scores nor a label")
    values = np.asarray(as_array(answer))
    return _label_of_scores(values, labels) if values.ndim else _label_of_index(values, labels)


def as_array(answer: object) -> object:
    """Return the array of a tensor of torch, which is known by its methods, and anything else as it is."""
    if hasattr(answer, "detach") and hasattr(answer, "cpu"):
        return answer.detach().cpu().numpy()
    return answer


def _has_label(answer: object) -> TypeGuard[tuple[str, float]]:
    return isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str)


def _scores(answer: object) -> np.ndarray | float | None:
    """Return the scores of a valid answer, (D,) float64, the score of a label with one, None for a label or an index.

    Raises ValueError if the latter is no score.
    """
    if _has_label(answer):
        if not 0 <= float(answer[1]) <= 1:
            raise ValueError(f"the score {answer[1]} of {answer[0]} is not between 0 and 1")
        return float(answer[1])
    values = np.asarray(as_array(answer))
    return None if isinstance(answer, str) or values.ndim == 0 else values.reshape(-1).astype(np.float64)


def _label_of_index(value: np.ndarray, labels: Sequence[str]) -> str:
    if value.dtype.kind not in "iu":
        raise ValueError(f"{value} is not a class index")
    return label_of_class(int(value), labels, "class index")


def label_of_class(index: int, labels: Sequence[str], what: str) -> str:
    """Return the label of a class, its number without labels. Raises ValueError for one that is not there."""
    if index < 0 or (labels and index >= len(labels)):
        raise ValueError(f"{what} {index} of {len(labels)} classes")
    return labels[index] if labels else str(index)


def _label_of_scores(values: np.ndarray, labels: Sequence[str]) -> str:
    scores = values.reshape(-1)
    if scores.size == 0 or scores.size != max(values.shape) or values.dtype.kind not in "iuf":
        raise ValueError(f"{values.dtype} of shape {values.shape} is not one score for each class")
    if labels and scores.size != len(labels):
        raise ValueError(f"{counted(scores.size, 'score')} for {counted(len(labels), 'label')}")
    if not np.isfinite(scores).all():
        raise ValueError("scores are not finite")
    return _label_of_index(np.asarray(scores.argmax()), labels)
