"""What the program no longer has, each with what to do instead; whoever still uses it is refused by its name."""

from __future__ import annotations

# key: a setting as "[section] key" or "[section]", a flag, or a command
REMOVED: dict[str, str] = {
    "[run] allow_int8": 'leave it out, or set precision = "int8", with which a model without good int8 does not run',
    "--allow-int8": "use --precision int8, with which a model without good int8 does not run",
    "--no-allow-int8": "leave it out, or use --precision full",
    "infer bench": "run `python benchmarks/loading.py` in a checkout of the repository",
}
