"""The rules of https://lila.science/megadetector-output-format and of its validator, written down here once more."""

from collections.abc import Iterator
from typing import Any


def problems(found: dict[str, Any]) -> Iterator[str]:
    """Yield what breaks the format's rules."""
    info, categories = found["info"], found["detection_categories"]
    classes = found.get("classification_categories", {})
    if not isinstance(info["format_version"], str) or float(info["format_version"]) != 1.6:
        yield "version"
    for key, name in (*categories.items(), *classes.items()):
        if int(key) < 1 or str(int(key)) != key or not name.strip():
            yield f"category {key!r}"
    if found.get("classification_category_descriptions", classes).keys() != classes.keys():
        yield "descriptions"
    for image in found["images"]:
        if not isinstance(image["file"], str):
            yield "file"
        if image.get("failure") is not None:
            if not isinstance(image["failure"], str) or image.get("detections") is not None:
                yield "failure"
            continue
        for one in image["detections"]:
            if one["category"] not in categories or type(one["conf"]) is not float or not 0 <= one["conf"] <= 1:
                yield f"detection {one}"
            x, y, width, height = one["bbox"]
            if min(x, y, width, height) < 0 or max(x + width, y + height) > 1:
                yield f"box {one}"
            scores = [score for key, score in one.get("classifications", ()) if key in classes]
            if scores != [score for _, score in sorted(one.get("classifications", ()), key=lambda pair: -pair[1])]:
                yield f"classifications {one}"
