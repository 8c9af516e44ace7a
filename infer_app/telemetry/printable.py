"""Names and error texts may hold terminal escapes, line ends and undecodable bytes: shown, not obeyed."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with all that does not print as escapes, line ends excepted."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def one_line(text: str) -> str:
    """As `printable`, line ends as escapes too."""
    return printable(text).replace("\n", "\\n")


MAX_LENGTH = 300  # of one text on a page; the tables keep all of it


def shown(text: str, max_length: int = MAX_LENGTH) -> str:
    """One line of printable characters: line ends, marks that turn the writing around and surrogates as escapes."""
    clipped = text if len(text) <= max_length else f"{text[: max_length - 1]}…"
    return "".join(char if char.isprintable() else _escaped(char) for char in clipped)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()


def percent(share: float) -> str:
    """`0.25 %`, `4.3 %`, `62 %`: two figures that matter."""
    if not share or share >= 0.1:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2f} %"
