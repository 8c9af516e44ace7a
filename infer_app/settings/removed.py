"""What former versions had and this one has not, with what to do instead: a hint of the error that names it."""

from __future__ import annotations

DECODE_GPU = "--decode gpu"  # a value of a flag that stays, and of recipes

# Keys: "[section] key", "[section]" for all its keys, a flag such as "--flag", a command such as "infer command".
REMOVED: dict[str, str] = {
    "[cache]": "leave it out, and delete the folder of pixels (.infer-cache unless [cache] named another); "
    "models of one recipe in one run decode each image once",
    DECODE_GPU: "build the model again with --decode exact, or scaled for large JPEGs",
    "infer cache": "delete the folder of pixels (.infer-cache unless [cache] named another), which nothing reads",
}
