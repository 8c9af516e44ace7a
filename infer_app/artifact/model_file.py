"""Read what a user states of a model: a model file, and `--set KEY=VALUE`."""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infer_app.artifact.description import Description
from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import UsageError, os_errors_as

BLANK = "?"  # in place of a value that only the user knows
_TEMPLATE = Path(__file__).with_name("model_template.toml")
PATHS = ("source", "weights", "labels", "golden")  # relative to the model file


def describe_values(values: Mapping[str, object], origins: Mapping[str, str] | None = None) -> Description:
    """Return the description that values state.

    Raises UsageError that names a key, and the file that it stands in if `origins` has the key.
    """
    blanks = [key for key, value in values.items() if value == BLANK and key in Description.model_fields]
    if blanks:
        raise UsageError(
            f"{_place(blanks[0], origins)}left blank: {', '.join(blanks)}", f"{blanks[0]}: {about(blanks[0])}"
        )
    try:
        return Description.model_validate(values)
    except ValidationError as error:
        raise _explain(error, values, origins) from None


def read_model_file(path: Path) -> dict[str, Any]:
    """Return the keys of a model file and their values, with its paths from the current folder. Raises UsageError."""
    with os_errors_as(UsageError, str(path), "it must be readable"):
        data = path.read_bytes()
    try:
        values = tomllib.loads(decode_text(data, str(path)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: {error}", "fix the line: texts stand in quotes") from None
    return {key: _from_here(key, value, path.parent) for key, value in values.items()}


def _from_here(key: str, value: Any, folder: Path) -> Any:
    if key not in PATHS or not isinstance(value, str) or value == BLANK:
        return value
    path = str(folder / value)
    is_name = key == "source" and ":" in value and not Path(path).exists()  # timm:NAME, module:function
    return value if is_name else path


def read_assignments(assignments: Sequence[str]) -> dict[str, str]:
    """Return the keys and values of `--set KEY=VALUE`. Raises UsageError."""
    pairs = [text.partition("=") for text in assignments]
    if wrong := next((key for key, equals, _ in pairs if not equals), None):
        raise UsageError(f"--set {wrong}: no value", "for example --set interpolation=bilinear")
    return {key.strip(): value.strip() for key, _, value in pairs}


def template() -> dict[str, tuple[str, str]]:
    """Return what each key means, as comments, and the line that states its default."""
    blocks = _TEMPLATE.read_text(encoding="utf-8").strip().split("\n\n")
    parts = [block.rpartition("\n") for block in blocks]
    return {line.partition(" ")[0]: (comments, line) for comments, _, line in parts}


def about(key: str) -> str:
    """Return what a key means."""
    return " ".join(line.removeprefix("# ") for line in template()[key][0].splitlines())


def _place(key: str, origins: Mapping[str, str] | None) -> str:
    return f"{origins[key]}: " if origins and key in origins else ""


def _explain(error: ValidationError, values: Mapping[str, object], origins: Mapping[str, str] | None) -> UsageError:
    first = error.errors(include_url=False)[0]
    key = str(first["loc"][0])
    where = _place(key, origins)
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, list(Description.model_fields), 1, 0.5)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(Description.model_fields)}"
        return UsageError(f"{where}unknown key {key!r}", hint)
    if first["type"] == "missing":
        return UsageError(f"{where}{key} is missing", about(key))
    reason = "" if first["type"] in ("literal_error", "enum") else f": {first['msg'].removeprefix('Value error, ')}"
    return UsageError(f"{where}{key} {values[key]!r} is not allowed{reason}", about(key))
