"""Format what is printed: numbers with nouns, names without control characters, commands that run as they are printed.

Names and error texts may contain terminal escapes, line ends and undecodable bytes. Output that can't be written, as to
a full disk or a pipe whose reader has gone, is dropped.
"""

import csv
import io
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO, TypeVar

Told = TypeVar("Told")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # what one begins with in a spreadsheet
_WITHOUT_CONFIG = re.compile(r"`(infer (?!init\b|quickstart\b|[^`]* --config )[a-z][^`]*)`")
_config: list[str] = []  # the file that --config of this process names, if it does


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, which gets an s unless there is exactly one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def told_once(of_models: Mapping[str, Iterable[Told]], num_models: int = 0) -> dict[Told, tuple[str, ...]]:
    """Return what is told of models, each once and with the names of its models: none if it is told of all.

    `num_models` is their number if there are more than those that have something to tell.
    """
    names_of: dict[Told, list[str]] = {}
    for name, told in of_models.items():
        for one in dict.fromkeys(told):
            names_of.setdefault(one, []).append(name)
    num_models = num_models or len(of_models)
    return {one: () if len(names) == num_models else tuple(names) for one, names in names_of.items()}


def named(text: str, names: Sequence[str]) -> str:
    """Return the text after the names of the models that it is told of, if there are any."""
    return f"{', '.join(names)}: {text}" if names else text


def shown_rate(rate: float) -> str:
    """Return a rate as a whole number, and one below 10 with two digits."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


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
    return next(csv_lines([values]))


def csv_lines(rows: Iterable[Iterable[object]], size: int = 1 << 15) -> Iterator[str]:
    """Yield the lines of many rows as `csv_line` returns one, some at a time: together about `size` characters."""
    lines = io.StringIO()
    write = csv.writer(lines).writerow
    for values in rows:
        write([_quoted(value) if isinstance(value, str) else value for value in values])
        if lines.tell() >= size:
            yield lines.getvalue()
            lines.seek(0)
            lines.truncate()
    if lines.tell():
        yield lines.getvalue()


def _quoted(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def remember_config(arguments: Sequence[str]) -> None:
    """Find the settings file in the arguments of this process or in INFER_CONFIG: printed commands name it too."""
    named = [os.environ.get("INFER_CONFIG", "")]
    for flag, value in zip(arguments, [*arguments[1:], ""], strict=False):
        name, equals, given = flag.partition("=")
        if name in ("--config", "-c"):
            named.append(given if equals else value)
    _config[:] = [one for one in named[-1:] if one]


def printed_options(*models: str) -> str:
    """Return ` --model NAME` for each of the models and ` --config FILE` if this process was given one."""
    options = [("--model", model) for model in models] + [("--config", file) for file in _config]
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in options)


def with_config(text: str) -> str:
    """Return the text with --config in its commands, which stand in backticks, if this process was given one."""
    return _WITHOUT_CONFIG.sub(lambda found: f"`{found[1]}{printed_options()}`", text) if _config else text


def discard_pending_output(stream: TextIO) -> None:
    """Discard what a stream still buffers after a failed write.

    Otherwise the next flush, which each start of a process does, would fail again. Later output is written as usual.
    """
    number = stream.fileno()
    original, null = os.dup(number), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, number)
        stream.flush()
    finally:
        os.dup2(original, number)
        os.close(original)
        os.close(null)
