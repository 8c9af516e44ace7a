"""What `infer model check` prints of a detector: how many objects both sides find, and which only one does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from infer_app.cli.terminal.output import show_table
from infer_app.models.verification.check_report import DifferentObject, ObjectComparison
from infer_app.models.verification.object_parity import EXACT_OBJECT
from infer_app.plurals import counted
from infer_app.replay.side_by_side import WHAT_DIFFERS

WORST_SHOWN = 10
SUSPICIOUS = 0.95  # two decoders and two resizes of one recipe agree on more, and find more of each other's objects


def path_in(folder: Path, path: str) -> str:
    """Return the path of an image from the folder on, which tells it from others of its name."""
    return os.path.relpath(path, folder if folder.is_dir() else folder.parent)


def print_objects(objects: ObjectComparison, folder: Path) -> None:
    """Print the images and the objects that differ most first, and the share that is found last."""
    if objects.differences:
        _show_images(objects.differences, folder)
        _show_objects(objects.differences, folder)
    for note in objects.notes:
        print(f"warning: {note}")
    if not objects.num_theirs and not objects.num_ours:
        return
    found = f" ({100 * objects.num_found / objects.num_theirs:.1f} %)" if objects.num_theirs else ""
    print(
        f"found {objects.num_found:,} of your {counted(objects.num_theirs, 'object')}{found}, with the same label "
        f"and an overlap (IoU) of {EXACT_OBJECT}, from a score of {objects.min_score:.2f} on; "
        f"{objects.num_extra:,} of our {objects.num_ours:,} you do not have"
    )
    if objects.mean_overlap is not None:
        print(
            f"where both are, boxes overlap by {objects.mean_overlap:.3f} on average, and scores differ by "
            f"{objects.mean_score_difference:.3f} on average and {objects.worst_score_difference:.3f} at worst"
        )
    if objects.num_found < SUSPICIOUS * objects.num_theirs:
        print(
            f"that is low: {WHAT_DIFFERS}, or the head; or your boxes are not x1 y1 x2 y2 in pixels of the upright "
            "picture"
        )


def _show_images(differences: Sequence[DifferentObject], folder: Path) -> None:
    by_side = {side: Counter(one.path for one in differences if one.found_by == side) for side in ("theirs", "ours")}
    most = (by_side["theirs"] + by_side["ours"]).most_common(WORST_SHOWN)
    rows = [(path_in(folder, path), str(by_side["theirs"][path]), str(by_side["ours"][path])) for path, _ in most]
    show_table(("image", "yours not found", "ours that you lack"), rows, "images that differ most")


def _show_objects(differences: Sequence[DifferentObject], folder: Path) -> None:
    rows = [
        (
            path_in(folder, one.path),
            "you" if one.found_by == "theirs" else "we",
            one.label,
            f"{one.score:.3f}",
            " ".join(f"{value:.0f}" for value in one.box),
            f"{one.overlap:.2f}",
        )
        for one in differences[:WORST_SHOWN]
    ]
    columns = ("image", "found by", "label", "score", "x1 y1 x2 y2", "best overlap of the other")
    show_table(columns, rows, "objects that only one side has, the surest first")
