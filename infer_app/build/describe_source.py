"""Write a model file: the keys that a source states, blanks for what only the user knows, and all other keys."""

import json
import os
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infer_app.artifact.check_description import OWNERS
from infer_app.artifact.description import Description
from infer_app.artifact.model_file import BLANK, PATHS, describe_values, template
from infer_app.base.errors import UsageError
from infer_app.base.printing import printable
from infer_app.base.size import Size
from infer_app.build.sources.source_facts import Fact, SourceFacts, Unsupported

_NUM_NAMED = 3  # labels
_HEADER = (
    "# A model for `infer model build FILE`, by what its source says about itself.",
    f'# Fill in each "{BLANK}", which the source does not state, or remove its line to take the default.',
    "# Lines that begin with # state a default. Paths are relative to this file.",
)


def describe_source(stated: Description, facts: SourceFacts, folder: Path) -> tuple[str, list[str]]:
    """Return the text of a model file in `folder`, and the keys that it leaves blank.

    Raises UsageError for a source that can't be built whatever the user states.
    """
    undecided = facts.undecided(stated.stated)
    if refused := next((one for one in undecided if not one.unless), None):
        raise UsageError(refused.what, refused.hint)
    asked = {key: one for one in undecided for key in _keys_to_state(one)}
    taken = SourceFacts(facts.facts).taken(stated.stated)
    described = describe_values({key: fact.value for key, fact in taken.items()} | stated.stated)
    blanks = (asked.keys() | described.silent_defaults().keys() | {"name"}) - stated.stated.keys()
    lines = list(_HEADER)
    for key, (comments, default) in template().items():
        if key in blanks | described.model_fields_set or key not in OWNERS or OWNERS[key].is_in(described):
            lines += ["", comments, *(_reason(asked[key]) if key in asked else ())]
            lines.append(
                f'{key} = "{BLANK}"' if key in blanks else _line(key, described, taken, folder) or f"# {default}"
            )
    return "\n".join(lines) + "\n", [key for key in Description.model_fields if key in blanks]


def _keys_to_state(one: Unsupported) -> list[str]:
    """Return the keys by which the user decides what is not supported, the one that says most of several."""
    most = next((key for key in ("resize", "recipe") if key in one.unless), None)
    return [most] if most else sorted(one.unless - {"preprocess"})


def _reason(one: Unsupported) -> list[str]:
    return textwrap.wrap(printable(f"{one.what}: {one.hint}."), 117, initial_indent="# ", subsequent_indent="# ")


def _line(key: str, described: Description, taken: Mapping[str, Fact], folder: Path) -> str:
    """Return the line that states a key, nothing for a key that is left out."""
    value, origin = getattr(described, key), f"  # {taken[key].origin}" if key in taken else ""
    if key not in described.model_fields_set:
        return ""
    if key == "labels" and key in taken:
        named = ", ".join(map(_as_toml, value[:_NUM_NAMED])) + (", …" if len(value) > _NUM_NAMED else "")
        return f'# labels = "labels.txt"  # in place of {len(value)} labels ({taken[key].origin}): {named}'
    if key in PATHS and Path(str(value)).exists() and not Path(value).is_absolute():
        value = Path(os.path.relpath(value, folder))
    return f"{key} = {_as_toml(value)}{origin}"


def _as_toml(value: Any) -> str:
    if isinstance(value, Size):
        value = value.to_json()
    if isinstance(value, tuple) and len(set(value)) == 1 and isinstance(value[0], float):
        value = value[0]  # of all channels
    if isinstance(value, tuple):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
