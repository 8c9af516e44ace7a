"""Labels: one a line, UTF-8, class i on line i; whatever a line says is text and nothing else."""

from __future__ import annotations

from infer_app.errors import ModelError


def parse_labels(data: bytes, where: str) -> tuple[str, ...]:
    """The labels of a file; ModelError naming the line that can't be one."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError(f"{where}: not UTF-8: {error.reason} at byte {error.start}", "save it as UTF-8") from error
    lines = [line.removesuffix("\r").strip(" \t") for line in text.removesuffix("\n").split("\n")]
    for number, line in enumerate(lines, start=1):
        if not line:
            raise ModelError(f"{where}: line {number} is blank", "class i is line i: give every class a label")
        if "\0" in line:  # PostgreSQL can't store it
            raise ModelError(f"{where}: line {number} has a NUL character", "save it as UTF-8, not as UTF-16")
    return tuple(lines)


def format_labels(labels: tuple[str, ...]) -> bytes:
    """The same bytes for the same labels, whatever line ends they came with: they are hashed."""
    return "".join(f"{label}\n" for label in labels).encode()
