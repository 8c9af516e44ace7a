"""What became of each image of a run."""

from collections.abc import Callable, Iterable

from infer_app.base.domain import Broken, ChunkResult, Prediction


def outcomes(
    results: Iterable[ChunkResult],
    predicted: Callable[[Prediction], object] = lambda one: one.output.label,
    broken: Callable[[Broken], object] = lambda one: one.reason,
) -> dict[str, object]:
    """Return {image id: label or reason} or what else is asked for, and assert that no image has two."""
    found: dict[str, object] = {}
    for result in results:
        for one in (*result.predictions, *result.broken):
            assert one.ref.image_id not in found
            found[one.ref.image_id] = broken(one) if isinstance(one, Broken) else predicted(one)
    return found
