"""The tables of docs/pictures.md."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "pictures.md"
HEADS = ("file", "picture", "`depth`")


def rows(columns: int) -> dict[str, list[str]]:
    """The lines of the page's tables that have this many columns, by their first cell."""
    cells = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {line[0]: line[1:] for line in cells if len(line) == columns and line[0] not in HEADS}
