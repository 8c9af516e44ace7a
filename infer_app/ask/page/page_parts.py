"""Make what a page's template calls: charts as inline SVG, and texts on objects and the thresholds that show them.

Of charts x is in per cent and y in pixels: a chart fills the width, and text keeps its size. Colours are classes of the
page's style sheet (c0 to c10), so that charts follow its dark and light theme. All text is escaped and printable.
"""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from infer_app.ask.figures.object_figures import ImageObjects
from infer_app.ask.model_report import TakenObjects
from infer_app.base.printing import counted, one_line, percent
from infer_app.tables.results.schema import ALL_LABELS

NUM_COLORS = 11
NUM_NAMED = 12  # thresholds, or labels
MAX_TEXT_LENGTH = 300  # of one text on a page; the database keeps the whole text
COLUMN_SHARE = 0.82  # of its width; the rest is the gap
MIN_HEIGHT = 1.5  # pixels, of a column whose value is not 0

_SVG = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{}">{}</svg>')
_RECT = Markup('<rect class="{}" x="{:.3f}%" y="{:.1f}" width="{:.3f}%" height="{:.1f}"{}><title>{}</title></rect>')
_LINE = Markup('<line class="{}" x1="{:.3f}%" x2="{:.3f}%" y1="{:.1f}" y2="{:.1f}"/>')
_TEXT = Markup('<text class="{}" x="{:.3f}%" y="{:.1f}" text-anchor="{}">{}</text>')
_ROUND = Markup(' rx="1.5"')


def stacked_bar(parts: Mapping[str, float], colors: Mapping[str, int], unit: str) -> Markup:
    """Draw one bar whose parts are as wide as their shares of the sum; `colors` is the class number of each part."""
    total = sum(parts.values()) or 1.0
    rects, x = [], 0.0
    for name, value in parts.items():
        width = 100 * value / total
        rects.append(_rect(f"c{colors[name] % NUM_COLORS}", (x, 0, width, 26), f"{name}: {value:.2f} {unit}"))
        x += width
    return _svg(f"{unit} by part", 26, rects)


def share_bar(share: float, ticks: Sequence[tuple[str, float | None]], scale: float) -> Markup:
    """Draw a share as a bar and other shares as ticks across it; `scale` is the share that fills the whole width."""
    scale = scale or 1.0
    marks = [
        Markup("{}").format(_rect(name, (min(99.4, 100 * other / scale), 0, 0.6, 16), f"{name}: {percent(other)}"))
        for name, other in ticks
        if other is not None
    ]
    bar = _rect("c0", (0, 3, 100 * share / scale, 10), percent(share), _ROUND)
    return _svg(f"share {percent(share)}", 16, [bar, *marks])


def histogram(counts: Sequence[int], edges: Sequence[float], height: int = 150, what: str = "images") -> Markup:
    """Draw columns over a numeric axis; counts[i] is the number of values between edges[i] and edges[i + 1]."""
    top = max(counts, default=0) or 1
    floor = height - 18
    step = 100 / max(1, len(counts))
    columns = [
        _column("c0", n, step, count / top, floor, f"{edges[n]:.3g} to {edges[n + 1]:.3g}: {count:,}")
        for n, count in enumerate(counts)
    ]
    low, high = edges[0], edges[-1]
    axis = [
        _TEXT.format("axis", x, height - 4, anchor, f"{low + x / 100 * (high - low):.3g}")
        for x, anchor in [(0, "start"), (50, "middle"), (100, "end")]
    ]
    return _svg(f"number of {what} by score", height, [*_grid(floor, f"{top:,}"), *columns, *axis])


def day_bar(images: int, rejected: int, pending: int, top: int, height: int = 34) -> Markup:
    """Draw the images of a day as a column: predicted, above them rejected, above them pending ones."""
    parts = {"c0": images - rejected - pending, "failed": rejected, "pending": pending}
    tall = {kind: max(MIN_HEIGHT, height * number / top) if number > 0 else 0.0 for kind, number in parts.items()}
    tall["c0"] -= max(0.0, sum(tall.values()) - height)
    drawn, floor = [], float(height)
    for kind, number in parts.items():
        floor -= tall[kind]
        drawn.append(_rect(kind, (20, floor, 60, tall[kind]), f"{number:,}"))
    return _svg(counted(images, "image"), height, drawn)


def _svg(label: str, height: float, parts: Sequence[Markup]) -> Markup:
    return _SVG.format(one_line(label, MAX_TEXT_LENGTH), height, Markup("").join(parts))


def _rect(kind: str, place: tuple[float, float, float, float], title: str, more: str = "") -> Markup:
    x, y, width, height = place
    return _RECT.format(kind, x, y, max(0.0, width), max(0.0, height), more, one_line(title, MAX_TEXT_LENGTH))


def _column(kind: str, index: int, step: float, share: float, floor: float, title: str) -> Markup:
    """Draw a column; `share` is its share of the height between the floor and the top line."""
    height = max(MIN_HEIGHT, share * (floor - 14)) if share > 0 else 0.0
    x = (index + (1 - COLUMN_SHARE) / 2) * step
    return _rect(kind, (x, floor - height, step * COLUMN_SHARE, height), title, _ROUND)


def _grid(floor: float, top_label: str) -> list[Markup]:
    lines = [_LINE.format("grid", 0, 100, 14, 14), _LINE.format("floor", 0, 100, floor, floor)]
    return [*lines, _TEXT.format("axis", 0, 10, "start", one_line(top_label, MAX_TEXT_LENGTH))]


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
