"""What a second network needs of the detector whose objects are its pictures."""

from collections.abc import Sequence

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.manifest import Manifest
from infer_app.artifact.recipe import Recipe
from infer_app.artifact.specs import CropSpec
from infer_app.base.errors import ModelError

MAX_LISTED = 20  # labels in a hint


def check_against_detector(crop: CropSpec, recipe: Recipe, detector: Manifest, labels: Sequence[str]) -> None:
    """Raise ModelError if a network of this recipe can't take its crops from a detector with these labels."""
    name = detector.name
    if detector.crop is not None:
        raise ModelError(
            f"{name} takes its pictures from {detector.crop.of} itself: there are two stages, not more",
            f"make it of {detector.crop.of}: --set of={detector.crop.of}",
        )
    if detector.output.detection is None:
        raise ModelError(
            f"{name} is of kind {detector.output.kind} and finds no objects",
            "name a detector, which was built with --output detection",
        )
    _check_gate(crop, detector, detector.output.detection.min_score, labels)
    _check_pixels(recipe, detector)


def _check_gate(crop: CropSpec, detector: Manifest, stored_from: float, labels: Sequence[str]) -> None:
    if crop.min_score < stored_from:
        raise ModelError(
            f"objects from a score of {crop.min_score:g} on are asked for, {detector.name} stores them from "
            f"{stored_from:g} on",
            f"give min_score {stored_from:g} or more, or build the detector with a lower one",
        )
    for label in crop.labels:
        # Without labels the classes are called by their numbers.
        if label not in labels if labels else not label.isdecimal():
            listed = ", ".join(labels[:MAX_LISTED]) + (", …" if len(labels) > MAX_LISTED else "")
            raise ModelError(
                f"{detector.name} finds no objects of the label {label!r}",
                f"its labels are {listed}" if labels else "it was built without labels: give numbers of classes",
            )


def _check_pixels(recipe: Recipe, detector: Manifest) -> None:
    """Check the recipes: crops are cut out of what was decoded for the detector, which must be whole and upright."""
    theirs = detector.recipe
    for what, decode in ((detector.name, theirs.decode), ("the second network", recipe.decode)):
        if decode != "exact":
            raise ModelError(
                f"{what} decodes pictures by {decode}: objects are cut out of whole pictures",
                f"build {'it' if what == 'the second network' else what} with --set decode=exact",
            )
    if recipe.exif != theirs.exif:
        raise ModelError(
            f"exif {recipe.exif}: the boxes of {detector.name} refer to the upright picture", "leave exif out"
        )
    if recipe.depth != theirs.depth:
        raise ModelError(
            f"the second network reads 16-bit pictures by depth {recipe.depth}, {detector.name} by {theirs.depth}",
            f"both take the picture as it was decoded: give --set depth={theirs.depth}, or build the detector again",
        )


def detector_of(artifacts: Sequence[Artifact]) -> int | None:
    """Return the index of the model whose objects others take; None if there is none among them."""
    wanted = {artifact.manifest.crop.of for artifact in artifacts if artifact.manifest.crop}
    return next((number for number, one in enumerate(artifacts) if one.manifest.name in wanted), None)


def second_networks_of(artifacts: Sequence[Artifact]) -> frozenset[int]:
    """Return the indices of the second networks; one without its detector takes whole pictures, as its build does."""
    if detector_of(artifacts) is None:
        return frozenset()
    return frozenset(number for number, artifact in enumerate(artifacts) if artifact.manifest.crop)
