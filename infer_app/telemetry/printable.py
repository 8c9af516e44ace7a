"""Names and error texts as printable text: they may contain terminal escapes, line ends and undecodable bytes."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return the text with unprintable characters as escape sequences; line ends are kept."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def one_line(text: str, max_length: int | None = None) -> str:
    """Return the text, cut to `max_length` characters, with line ends as escape sequences too."""
    clipped = text if max_length is None or len(text) <= max_length else f"{text[: max_length - 1]}…"
    return printable(clipped).replace("\n", "\\n")


def percent(share: float) -> str:
    """Format a share with two significant digits: `0.25 %`, `4.3 %`, `62 %`."""
    if not share or share >= 0.1:
        return f"{100 * share:.0f} %"
    return f"{100 * share:.1f} %" if share >= 0.01 else f"{100 * share:.2f} %"
