"""Names and error texts as printable text: they may contain terminal escapes, line ends and undecodable bytes."""

import csv
import io
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what one begins with in a spreadsheet


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


def csv_line(values: Iterable[object]) -> str:
    """Return the values as one line of CSV with its end, in which no text is a formula.

    Names, ids and labels are other people's, and a formula may read other cells and open addresses. An apostrophe makes
    it text, as https://owasp.org/www-community/attacks/CSV_Injection advises. It changes few texts, as paths begin with
    a slash, a scheme or a folder; JSON and Parquet hold all of them exactly. A setting would be off where it is needed.
    """
    line = io.StringIO()
    csv.writer(line).writerow([_quoted(value) if isinstance(value, str) else value for value in values])
    return line.getvalue()


def _quoted(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
