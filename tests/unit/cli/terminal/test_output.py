from functools import partial

from rich.console import Console

from infer_app.cli.terminal import output
from infer_app.cli.terminal.output import show_table


def test_a_long_path_is_folded_and_not_cut(capsys):
    path = "/srv/" + "/".join(f"camera{number}" for number in range(40)) + "/IMG_0017.JPG"
    show_table(("id", "image", "detail"), [("1", path, "no end marker")])
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert "".join(cells[1].strip() for cells in rows) == path


def test_a_terminal_of_80_columns_breaks_no_date_and_no_number(capsys, monkeypatch):
    monkeypatch.setattr(output, "Console", partial(Console, force_terminal=True, width=80, color_system=None))
    headings = ("day", "model", "state", "images", "predicted", "rejected", "pending", "remarks")
    row = (
        "2026-11-28",
        "efficientnet-lite0",
        "○ no images",
        "12,345",
        "12,300",
        "45",
        "0",
        "unusual: 8 images, 37 a day before",
    )
    show_table(headings, [row])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    whole = {*headings, "2026-11-28", "○ no images", "12,345", "12,300", "45"}
    assert [one for one in whole if not any(one in line for line in lines)] == []
