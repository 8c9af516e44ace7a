"""Numbers for messages, with their nouns: `1 image`, `1,204 images`, and rates: `0.57`, `1,204`."""


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, which gets an s unless there is exactly one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def shown_rate(rate: float) -> str:
    """Return a rate as a whole number, and one below 10 with two digits."""
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
