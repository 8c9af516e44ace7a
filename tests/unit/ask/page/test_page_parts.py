from xml.etree import ElementTree

import pytest

from infer_app.ask.page import page_parts


def rects(svg):
    """(class, x %, width %, height) of every rectangle; it must be well-formed."""
    found = ElementTree.fromstring(str(svg)).iter("rect")
    numbers = ("x", "width", "height")
    return [(one.get("class"), *(float(one.get(name).rstrip("%")) for name in numbers)) for one in found]


def test_parts_of_a_bar_are_as_wide_as_their_shares():
    assert rects(page_parts.stacked_bar({"decode": 1, "model": 3}, {"decode": 4, "model": 0}, "ms")) == [
        ("c4", 0, 25, 26),
        ("c0", 25, 75, 26),
    ]


def test_a_share_has_its_ticks():
    found = rects(page_parts.share_bar(0.1, [("week", 0.2), ("month", None)], 0.4))
    assert found == [("c0", 0, pytest.approx(25), 10), ("week", 50, 0.6, 16)]


def test_the_highest_column_reaches_the_line_and_the_smallest_is_seen():
    heights = [height for *_, height in rects(page_parts.histogram([0, 1, 10_000], [0, 1, 2, 3], height=150))]
    assert heights == [0, page_parts.MIN_HEIGHT, 150 - 18 - 14]


def test_the_bar_of_a_day_has_all_its_images_from_the_floor_up():
    found = rects(page_parts.day_bar(images=10, rejected=2, pending=3, top=20, height=40))
    assert [(kind, height) for kind, *_, height in found] == [("c0", 10), ("failed", 4), ("pending", 6)]
    one_rejected = rects(page_parts.day_bar(images=9000, rejected=1, pending=0, top=9000, height=40))
    assert [height for *_, height in one_rejected] == [40 - page_parts.MIN_HEIGHT, page_parts.MIN_HEIGHT, 0]
    nothing = rects(page_parts.day_bar(images=0, rejected=0, pending=0, top=1))
    assert [height for *_, height in nothing] == [0, 0, 0]


def test_bars_of_nothing_are_drawn():
    assert rects(page_parts.stacked_bar({}, {}, "ms")) == []
    assert [one[1:] for one in rects(page_parts.stacked_bar({"0": 0}, {"0": 0}, "ms"))] == [(0, 0, 26)]
