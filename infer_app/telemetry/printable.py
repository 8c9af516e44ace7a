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
