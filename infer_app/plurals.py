"""Numbers with their nouns, for messages: `1 image`, `1,204 images`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, which gets an s unless there is exactly one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
