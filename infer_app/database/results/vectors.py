"""The stored form of vectors: bytes, or on PostgreSQL optionally pgvector's type.

pgvector's numbers are float32, which represents those of float16 exactly.
"""

from __future__ import annotations

import struct

PGVECTOR_DTYPE = "float32"
_LETTERS = {"float32": "f", "float16": "e"}


def to_text(vector: bytes | None, dtype: str | None) -> str | None:
    """Return the vector as text for pgvector: nine digits identify a float32."""
    if vector is None:
        return None
    letter = _LETTERS[str(dtype)]
    numbers = struct.unpack(f"<{len(vector) // struct.calcsize(letter)}{letter}", vector)
    return f"[{','.join(['%.9g'] * len(numbers))}]" % numbers
