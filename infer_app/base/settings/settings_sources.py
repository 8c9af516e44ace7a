"""Read the tables of infer.toml and of INFER_* variables, with what to do about a name that is no setting."""

import difflib
import os
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import UsageError
from infer_app.base.settings.sections import Settings

KEYS = [f"{name}.{key}" for name, field in Settings.model_fields.items() for key in field.annotation.model_fields]  # type: ignore[union-attr]
_PATHS = dict.fromkeys(("images.roots", "images.watch"), os.pathsep)
_LISTS = ("images.exclude", "run.models", "remote.allow", "remote.allow_private_hosts")
_SEPARATORS = _PATHS | dict.fromkeys(_LISTS, ",")


Tables = Mapping[str, Mapping[str, object]]  # section -> key -> value


def read_variables() -> Tables:
    """Read the INFER_SECTION__KEY variables; lists are split (INFER_IMAGES__ROOTS=/a:/b).

    Other names that begin with INFER_ belong to other programs: Kubernetes sets INFER_DB_SERVICE_HOST and more for a
    service called infer-db. Only a setting's name with a single underscore is certainly meant for this program.
    """
    tables: defaultdict[str, dict[str, object]] = defaultdict(dict)
    for name, text in os.environ.items():
        dotted = name.removeprefix("INFER_").lower().replace("__", ".", 1)
        if name.startswith("INFER_") and _is_setting(name, dotted):
            section, _, key = dotted.partition(".")
            tables[section][key] = _split(dotted, text)
    return tables


def read_file(path: Path) -> Tables:
    """Read the tables of infer.toml, whichever editor has saved it. Raises UsageError."""
    try:
        if not path.is_file():
            raise UsageError(
                f"no {path.name} in {path.parent}", "run `infer init` there, or name one with --config FILE"
            )
        text = decode_text(path.read_bytes(), str(path))
        tables = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"{path}: too many nested brackets", "compare it with what `infer init` writes") from None
    except tomllib.TOMLDecodeError as error:
        hint = "fix the line, or compare it with what `infer init` writes"
        hint = "it has non-breaking spaces: write plain ones" if "\xa0" in text else hint
        raise UsageError(f"{path}: {error}", hint) from None
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path.name}: {section!r} is outside a [section]", did_you_mean(section))
        if section not in Settings.model_fields:
            close = difflib.get_close_matches(section, list(Settings.model_fields), 1, 0.5)
            hint = f"did you mean [{close[0]}]?" if close else f"known are {', '.join(Settings.model_fields)}"
            raise UsageError(f"{path.name}: unknown section [{section}]", hint)
    return tables


def variable(dotted: str) -> str:
    """Return the name of the variable that overrides a key."""
    return "INFER_" + dotted.replace(".", "__").upper()


def _is_setting(name: str, dotted: str) -> bool:
    """Return whether a variable names a setting, as section.key. Raises UsageError if it nearly does."""
    if dotted in KEYS:
        return True
    if dotted.partition(".")[0] in ("", dotted) and name not in {variable(known).replace("__", "_") for known in KEYS}:
        return False
    close = difflib.get_close_matches(dotted, KEYS, 1, 0.5)
    hint = f"did you mean {variable(close[0])}?" if close else "`infer config show` lists the settings"
    raise UsageError(f"unknown variable {name}", hint)


def _split(dotted: str, text: str) -> str | list[str] | Mapping[str, str]:
    """Return the parts of a variable's text if its setting is a list or the map, else the text."""
    if dotted == "images.map":
        return _read_map(text)
    return [part.strip() for part in text.split(_SEPARATORS[dotted])] if dotted in _SEPARATORS else text


def _read_map(text: str) -> Mapping[str, str]:
    """Parse INFER_IMAGES__MAP: pairs /recorded=/local, separated as in PATH."""
    found: dict[str, str] = {}
    for part in text.split(os.pathsep) if text else ():
        recorded, equals, local = part.partition("=")
        if not equals or "=" in local or recorded in found:
            hint = "separate pairs by colons, each once; folders with = or : in a name only work in infer.toml"
            raise UsageError(f"INFER_IMAGES__MAP: {part!r} is not of the form /recorded=/local", hint)
        found[recorded] = local
    return found


def did_you_mean(key: str, section: str = "") -> str:
    """Return a hint for an unknown key: the most similar known one, preferably in the same section."""
    known = sorted(KEYS, key=lambda dotted: dotted.startswith(f"{section}."))
    names = {dotted.partition(".")[2]: dotted for dotted in known}
    close = difflib.get_close_matches(key, list(names), 1, 0.5)
    if not close:
        return "`infer config show` lists the settings"
    section, _, name = names[close[0]].partition(".")
    return f"did you mean {name} in [{section}]?"
