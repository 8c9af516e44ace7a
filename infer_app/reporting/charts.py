"""Charts as inline SVG. Across in per cent, up in pixels: they take the width there is and text keeps its size.

Colours are classes of the page's style sheet (c0 to c9), so that charts follow its dark and light theme. All text is
escaped, and made printable as everywhere on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from infer_app.reporting.timeline import TimelineRow
from infer_app.telemetry.printable import percent, shown

NUM_COLORS = 11
COLUMN_SHARE = 0.82  # of its place, the rest is the gap
MIN_HEIGHT = 1.5  # pixels, of a column that stands for something

_SVG = Markup('<svg class="chart" role="img" aria-label="{}" width="100%" height="{}">{}</svg>')
_RECT = Markup('<rect class="{}" x="{:.3f}%" y="{:.1f}" width="{:.3f}%" height="{:.1f}"{}><title>{}</title></rect>')
_LINE = Markup('<line class="{}" x1="{:.3f}%" x2="{:.3f}%" y1="{:.1f}" y2="{:.1f}"/>')
_TEXT = Markup('<text class="{}" x="{:.3f}%" y="{:.1f}" text-anchor="{}">{}</text>')
_ROUND = Markup(' rx="1.5"')


def stacked_bar(parts: Mapping[str, float], colors: Mapping[str, int], unit: str) -> Markup:
    """One bar, each part as wide as its share of the sum; `colors` gives each part its class number."""
    total = sum(parts.values()) or 1.0
    rects, x = [], 0.0
    for name, value in parts.items():
        width = 100 * value / total
        rects.append(_rect(f"c{colors[name] % NUM_COLORS}", x, 0, width, 26, f"{name}: {value:.2f} {unit}"))
        x += width
    return _svg(f"{unit} by part", 26, rects)


def share_bar(share: float, ticks: Sequence[tuple[str, float | None]], scale: float) -> Markup:
    """A share as a bar, others as ticks across it; `scale` is the share that takes the whole width."""
    scale = scale or 1.0
    marks = [
        Markup("{}").format(_rect(name, min(99.4, 100 * other / scale), 0, 0.6, 16, f"{name}: {percent(other)}"))
        for name, other in ticks
        if other is not None
    ]
    bar = _rect("c0", 0, 3, 100 * share / scale, 10, percent(share), _ROUND)
    return _svg(f"share {percent(share)}", 16, [bar, *marks])


def histogram(counts: Sequence[int], edges: Sequence[float], height: int = 150) -> Markup:
    """Columns over a scale of numbers; counts[i] lie between edges[i] and edges[i + 1]."""
    top = max(counts, default=0) or 1
    floor = height - 18
    step = 100 / max(1, len(counts))
    columns = [
        _column("c0", n, step, count / top, floor, f"{edges[n]:.3g} to {edges[n + 1]:.3g}: {count:,}")
        for n, count in enumerate(counts)
    ]
    places = [(0, "start"), (50, "middle"), (100, "end")]
    low, high = edges[0], edges[-1]
    scale = [_TEXT.format("axis", x, height - 4, anchor, f"{low + x / 100 * (high - low):.3g}") for x, anchor in places]
    return _svg("number of images by score", height, [*_grid(floor, f"{top:,}"), *columns, *scale])


def columns(
    values: Sequence[float | None], titles: Sequence[str], classes: Sequence[str], top_label: str, height: int = 96
) -> Markup:
    """A column for each, in order; a short red one for what has no value."""
    top = max((value for value in values if value), default=0.0) or 1.0
    floor = height - 6
    step = 100 / max(1, len(values))
    drawn = []
    for n, (value, title, kind) in enumerate(zip(values, titles, classes, strict=True)):
        if value is None:
            drawn.append(_column("missing", n, step, 4 / (floor - 14), floor, title))
        else:
            drawn.append(_column(kind, n, step, value / top, floor, title))
    return _svg(top_label, height, [*_grid(floor, top_label), *drawn])


def timeline_rows(rows: Sequence[TimelineRow], colors: Mapping[str, int], row_height: int = 18) -> Markup:
    """A row for each process, a bar for each time it spent on a stage."""
    rects = []
    for row, lane in enumerate(rows):
        y = row * row_height
        rects.append(_rect("lane", 0, y + 2, 100, row_height - 4, f"{lane.name}, busy {percent(lane.busy)}"))
        for bar in lane.bars:
            color = f"c{colors.get(bar.stage, 0) % NUM_COLORS}"
            rects.append(_rect(color, 100 * bar.start, y + 2, 100 * bar.width, row_height - 4, bar.stage))
    return _svg("processes and stages over time", row_height * max(1, len(rows)), rects)


def _svg(label: str, height: float, parts: Sequence[Markup]) -> Markup:
    return _SVG.format(shown(label), height, Markup("").join(parts))


def _rect(kind: str, x: float, y: float, width: float, height: float, title: str, more: str = "") -> Markup:
    return _RECT.format(kind, x, y, max(0.0, width), max(0.0, height), more, shown(title))


def _column(kind: str, place: int, step: float, share: float, floor: float, title: str) -> Markup:
    """`share` of the height between the floor and the line under the highest number."""
    height = max(MIN_HEIGHT, share * (floor - 14)) if share > 0 else 0.0
    x = (place + (1 - COLUMN_SHARE) / 2) * step
    return _rect(kind, x, floor - height, step * COLUMN_SHARE, height, title, _ROUND)


def _grid(floor: float, top_label: str) -> list[Markup]:
    lines = [_LINE.format("grid", 0, 100, 14, 14), _LINE.format("floor", 0, 100, floor, floor)]
    return [*lines, _TEXT.format("axis", 0, 10, "start", shown(top_label))]
