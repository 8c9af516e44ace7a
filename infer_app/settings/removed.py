"""List what former versions had, with what to do instead: a hint of the error that names it."""

from __future__ import annotations

DECODE_GPU = "--decode gpu"  # a value of a flag that stays, and of recipes

# Keys: "[section] key", "[section]" for all its keys, a flag such as "--flag", a command such as "infer command".
REMOVED: dict[str, str] = {
    "[cache]": "leave it out, and delete the folder of pixels (.infer-cache unless [cache] named another); "
    "models of one recipe in one run decode each image once",
    "[run] allow_int8": 'leave it out, or set precision = "int8", with which a model without good int8 does not run',
    DECODE_GPU: "build the model again with --decode exact, or scaled for large JPEGs",
    "--allow-int8": "use --precision int8, with which a model without good int8 does not run",
    "--no-allow-int8": "leave it out, or use --precision full",
    "infer bench": "run `python benchmarks/loading.py` in a checkout of the repository",
    "infer cache": "delete the folder of pixels (.infer-cache unless [cache] named another), which nothing reads",
}
