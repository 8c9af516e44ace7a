"""What the program no longer has, each with what to do instead; whoever still uses it is refused by its name."""

from __future__ import annotations

# key: a setting as "[section] key" or "[section]", a flag, or a command
REMOVED: dict[str, str] = {
    "infer bench": "run `python benchmarks/loading.py` in a checkout of the repository",
}
