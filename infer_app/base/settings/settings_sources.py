"""Read the tables of infer.toml and of INFER_* variables, with what to do about a name that is no setting."""

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic_settings import BaseSettings, EnvSettingsSource, TomlConfigSettingsSource

from infer_app.base.atomic_file import decode_text
from infer_app.base.errors import UsageError
from infer_app.base.settings.sections import Settings

KEYS = [f"{name}.{key}" for name, field in Settings.model_fields.items() for key in field.annotation.model_fields]  # type: ignore[union-attr]
_PATHS = dict.fromkeys(("images.roots", "images.watch"), os.pathsep)
_LISTS = ("images.exclude", "run.models", "remote.allow", "remote.allow_private_hosts")
_SEPARATORS = _PATHS | dict.fromkeys(_LISTS, ",")


class VariablesSource(EnvSettingsSource):
    """The source of INFER_SECTION__KEY variables; lists are split (INFER_IMAGES__ROOTS=/a:/b).

    Other names that begin with INFER_ belong to other programs: Kubernetes sets INFER_DB_SERVICE_HOST and more for a
    service called infer-db. Only a setting's name with a single underscore is certainly meant for this program.
    """

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        self.env_vars = {name.lower(): text for name, text in os.environ.items() if _is_setting(name)}

    def __call__(self) -> dict[str, object]:
        return {
            section: {key: _split(f"{section}.{key}", text) for key, text in table.items()}
            for section, table in super().__call__().items()
        }


class _TomlSource(TomlConfigSettingsSource):
    """The tables of infer.toml, whichever editor has saved it."""

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        text = decode_text(file_path.read_bytes(), str(file_path))
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            if "\xa0" not in text:
                raise
            raise UsageError(f"{file_path}: {error}", "it has non-breaking spaces: write plain ones") from None


def open_file(settings_cls: type[BaseSettings], path: Path) -> TomlConfigSettingsSource:
    try:
        if not path.is_file():
            raise UsageError(
                f"no {path.name} in {path.parent}", "run `infer init` there, or name one with --config FILE"
            )
        source = _TomlSource(settings_cls, path)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"{path}: too many nested brackets", "compare it with what `infer init` writes") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", "fix the line, or compare it with what `infer init` writes") from None
    for section, table in source().items():
        if not isinstance(table, dict):
            raise UsageError(f"{path.name}: {section!r} is outside a [section]", did_you_mean(section))
        if section not in Settings.model_fields:
            close = difflib.get_close_matches(section, list(Settings.model_fields), 1, 0.5)
            hint = f"did you mean [{close[0]}]?" if close else f"known are {', '.join(Settings.model_fields)}"
            raise UsageError(f"{path.name}: unknown section [{section}]", hint)
    return source


def variable(dotted: str) -> str:
    """Return the name of the variable that overrides a key."""
    return "INFER_" + dotted.replace(".", "__").upper()


def _is_setting(name: str) -> bool:
    """Return whether a variable names a setting. Raises UsageError if it nearly does."""
    if not name.startswith("INFER_"):
        return False
    section, separator, key = name.removeprefix("INFER_").lower().partition("__")
    dotted = f"{section}.{key}"
    if dotted in KEYS:
        return True
    if not (section and separator) and name not in {variable(known).replace("__", "_") for known in KEYS}:
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
    return MappingProxyType(found)  # a dict would be merged with the file's instead of replacing it


def did_you_mean(key: str, section: str = "") -> str:
    """Return a hint for an unknown key: the most similar known one, preferably in the same section."""
    known = sorted(KEYS, key=lambda dotted: dotted.startswith(f"{section}."))
    names = {dotted.partition(".")[2]: dotted for dotted in known}
    close = difflib.get_close_matches(key, list(names), 1, 0.5)
    if not close:
        return "`infer config show` lists the settings"
    section, _, name = names[close[0]].partition(".")
    return f"did you mean {name} in [{section}]?"
