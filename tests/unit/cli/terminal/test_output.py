from functools import partial

import pytest
from rich.console import Console

from infer_app.cli.terminal import output
from infer_app.cli.terminal.output import LONGEST_WORD, show_table

DAYS = ("day", "model", "state", "images", "predicted", "rejected", "pending", "remarks")
UNUSUAL = "unusual: 8 images, 37 a day before; 1,234,567 of earlier days pending"
VARIANTS = (
    "variant",
    "precision",
    "against the source on",
    "kept",
    "worst cosine",
    "worst difference",
    "score differs",
)
CAMERAS = ("camera", "images", "no result", "first", "last", "days", "no time", "remarks")
REMARKS = "images of 2026-11-02 came after later ones: was its clock reset?; clock put right by -8760.25 h"
MODELS = ("model", "id", "in use", "predictions", "built", "precisions", "output")
OBJECTS = ("image", "found by", "label", "score", "x1 y1 x2 y2", "best overlap of the other")
PATH = "/srv/cameras/2026/north-ridge-station/DCIM/100RECNX/IMG_0017.JPG"
KEPT = "12,345 of 12,346 objects: between 98.2 and 99.992 %"
TABLES = {
    "status": (DAYS, ("2026-11-28", "efficientnet-lite0", "○ no images", "12,345", "12,300", "45", "0", UNUSUAL)),
    "status of a long name": (
        DAYS,
        ("2026-11-28", "convnext_base.fb_in22k_ft_in1k", "✓ done with version 0123abcd", "1", "1", "0", "0", UNUSUAL),
    ),
    "variants": (
        VARIANTS,
        ("cpu-openvino/no-bf16", "half", "2,000 judged images", KEPT, "0.999999", "0.00012", "0.001, 0.123"),
    ),
    "cameras": (
        CAMERAS,
        ("north-ridge-station", "1,234,567", "12", "2026-11-02", "2026-11-28", "27", "1,234", REMARKS),
    ),
    "versions": (
        MODELS,
        (
            "megadetector",
            "0123456789abcdef",
            "since 2026-11-02 06:11 UTC",
            "1,234,567",
            "2026-11-02 06:11",
            "full, half, int8",
            "classification of megadetector",
        ),
    ),
    "images": (("id", "image", "model", "why"), ("4711", PATH, "species", "corrupt: no end marker")),
    "events": (
        ("event", "camera", "time", "images", "at least"),
        (
            123456,
            "north-ridge-station",
            "2026-11-02 06:11:00 to 06:12:30",
            1234,
            "12 Vulpes_vulpes, 3 Capreolus_capreolus",
        ),
    ),
    "objects": (OBJECTS, (PATH, "ours", "Capreolus_capreolus", "0.999", "1234.5 1234.5 2345.6 2345.6", "0.123")),
    "settings": (
        ("setting", "value", "from"),
        ("remote.allow_private_hosts", '["images.lab.example.org"]', "INFER_REMOTE__X"),
    ),
}


def test_a_long_path_is_folded_and_not_cut(capsys):
    path = "/srv/" + "/".join(f"camera{number}" for number in range(40)) + "/IMG_0017.JPG"
    show_table(("id", "image", "detail"), [("1", path, "no end marker")])
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert "".join(cells[1].strip() for cells in rows) == path


@pytest.mark.parametrize(("width", "is_terminal"), [(80, True), (120, True), (160, False)])
@pytest.mark.parametrize("table", TABLES)
def test_no_name_date_or_number_is_broken(capsys, monkeypatch, table, width, is_terminal):
    """Where the columns of a row do not fit into a line, each row is a block of lines."""
    console = partial(Console, force_terminal=is_terminal, width=width, color_system=None)
    monkeypatch.setattr(output, "Console", console)
    headings, row = TABLES[table]
    show_table(headings, [row, row], "the newest")
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    words = [word for text in (*headings, *map(str, row)) for word in text.split() if len(word) <= LONGEST_WORD]
    printed = {word for line in lines for word in line.split()}
    assert [word for word in words if word not in printed] == []
