"""What a page says of objects, and of the thresholds that show them."""

from collections.abc import Mapping

from infer_app.ask.day_report import TakenObjects
from infer_app.ask.figures.object_figures import ImageObjects
from infer_app.base.printing import counted, one_line
from infer_app.tables.queries.thresholds import ALL_LABELS

NUM_NAMED = 12  # thresholds, or labels


def describe_objects(image: ImageObjects) -> str:
    drawn = len(image.objects)
    return counted(image.num_objects, "object") + (f", {drawn} drawn" if image.num_objects > drawn else "")


def describe_thresholds(thresholds: Mapping[str, float]) -> str:
    """Describe which objects are shown: `at least 0.3; cat 0.6, dog 0.5`."""
    own = [f"{one_line(label, 60)} {value:g}" for label, value in thresholds.items() if label != ALL_LABELS]
    of_model = f"at least {thresholds[ALL_LABELS]:g}" if ALL_LABELS in thresholds else "any score"
    return "; ".join([of_model, *([_listed(own)] if own else [])])


def describe_taken(taken: TakenObjects) -> str:
    """Describe which objects a second network takes: `Objects of animals labelled bird, with at least 0.2`."""
    labels = f" labelled {_listed([one_line(label, 60) for label in taken.labels])}," if taken.labels else ""
    return f"Objects of {taken.detector}{labels} with a score of at least {taken.min_score:g}"


def _listed(texts: list[str]) -> str:
    more = [f"{len(texts) - NUM_NAMED} more"] if len(texts) > NUM_NAMED else []
    return ", ".join([*texts[:NUM_NAMED], *more])


def threshold_to_try(stored_from: float) -> str:
    """Return a threshold that hides some of what is stored: 0.3, or a higher one if nothing below that is stored."""
    return f"{0.3 if stored_from < 0.3 else (1 + stored_from) / 2:.2g}"
