from infer_app.cli.terminal.output import show_table


def test_a_long_path_is_folded_and_not_cut(capsys):
    path = "/srv/" + "/".join(f"camera{number}" for number in range(40)) + "/IMG_0017.JPG"
    show_table(("id", "image", "detail"), [("1", path, "no end marker")])
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert "".join(cells[1].strip() for cells in rows) == path
