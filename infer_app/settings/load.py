"""Reads infer.toml, then INFER_* variables, then flags; an unknown key is an error."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import TomlConfigSettingsSource

from infer_app.errors import UsageError
from infer_app.settings.loaded import LoadedSettings
from infer_app.settings.sections import Settings

DEFAULT_CONFIG = Path("infer.toml")


def load_settings(
    config: Path | None = None, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> LoadedSettings:
    """Settings of `config` (default ./infer.toml), overridden by INFER_* variables, then by `flags` (dotted keys).

    Raises UsageError with "did you mean" for an unknown key, and for a value of the wrong kind.
    """
    path = (config or DEFAULT_CONFIG).absolute()
    layers = [
        (str(path.name), _read_toml(path)),
        ("environment", _read_environment(environ)),
        ("flag", {key: value for key, value in (flags or {}).items() if value is not None}),
    ]
    origins = {key: origin for origin, layer in layers for key in layer}
    merged: dict[str, Any] = {}
    for _, layer in layers:
        for dotted, value in layer.items():
            section, _, key = dotted.partition(".")
            merged.setdefault(section, {})[key] = value
    try:
        return LoadedSettings(Settings(**merged), path, origins)
    except ValidationError as error:
        raise _explain(error, origins) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file():
            raise UsageError(
                f"no {path.name} in {path.parent}", "run `infer init` there, or name one with --config FILE"
            )
        tables = TomlConfigSettingsSource(Settings, path)()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}", "mend the line, or compare with what `infer init` writes") from None
    flat: dict[str, Any] = {}
    for section, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path.name}: {section!r} stands outside a [section]", _did_you_mean(section))
        _check_section(section, path.name)
        flat |= {f"{section}.{key}": value for key, value in table.items()}
    return flat


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read INFER_SECTION__KEY variables; a value that reads as a list is one (INFER_IMAGES__ROOTS=/a:/b).

    Other names that begin with INFER_ belong to other programs: Kubernetes sets INFER_DB_SERVICE_HOST and more for a
    service called infer-db. Only a setting's name with a single underscore can't be meant for anybody else.
    """
    flat: dict[str, Any] = {}
    single = {variable(dotted).replace("__", "_") for dotted in _known_keys()}
    for name, text in environ.items():
        if not name.startswith("INFER_"):
            continue
        section, separator, key = name.removeprefix("INFER_").lower().partition("__")
        if not (section and separator) and name not in single:
            continue
        dotted = f"{section}.{key}"
        if dotted not in _known_keys():
            close = difflib.get_close_matches(dotted, _known_keys(), 1, 0.5)
            hint = f"did you mean {variable(close[0])}?" if close else "`infer config show` lists the settings"
            raise UsageError(f"unknown variable {name}", hint)
        flat[dotted] = _as_map(text) if dotted == "images.map" else _as_list(dotted, text)
    return flat


def _as_map(text: str) -> dict[str, str]:
    """Folders as INFER_IMAGES__MAP names them: /recorded=/here, parted as in PATH."""
    found: dict[str, str] = {}
    for part in text.split(os.pathsep) if text else ():
        recorded, equals, here = part.partition("=")
        if not equals or "=" in here or recorded in found:
            hint = "part several by colons, each once; folders that hold = or : can be named in infer.toml only"
            raise UsageError(f"INFER_IMAGES__MAP: {part!r} is not of the form /recorded=/here", hint)
        found[recorded] = here
    return found


def _as_list(dotted: str, text: str) -> str | list[str]:
    """A variable is one text; folders are parted as in PATH, names by commas."""
    separators = {"images.roots": os.pathsep, "run.models": ",", "remote.allow": ",", "remote.allow_private_hosts": ","}
    return [part.strip() for part in text.split(separators[dotted])] if dotted in separators else text


def _known_keys() -> list[str]:
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    return [f"{name}.{key}" for name, section in sections.items() for key in section.model_fields]  # type: ignore[union-attr]


def variable(dotted: str) -> str:
    return "INFER_" + dotted.replace(".", "__").upper()


def _check_section(section: str, file: str) -> None:
    if section not in Settings.model_fields:
        close = difflib.get_close_matches(section, list(Settings.model_fields), 1, 0.5)
        hint = f"did you mean [{close[0]}]?" if close else f"known are {', '.join(Settings.model_fields)}"
        raise UsageError(f"{file}: unknown section [{section}]", hint)


def _did_you_mean(key: str, section: str = "") -> str:
    """A hint for an unknown key: the nearest known one, in its section rather than in another."""
    known = sorted(_known_keys(), key=lambda dotted: dotted.startswith(f"{section}."))
    names = {dotted.partition(".")[2]: dotted for dotted in known}
    close = difflib.get_close_matches(key, list(names), 1, 0.5)
    if not close:
        return "`infer config show` lists the settings"
    section, _, name = names[close[0]].partition(".")
    return f"did you mean {name} in [{section}]?"


def _explain(error: ValidationError, origins: dict[str, str]) -> UsageError:
    first = error.errors(include_url=False, include_input=False)[0]  # the input may hold a password
    dotted = ".".join(str(part) for part in first["loc"][:2])
    where = origins.get(dotted, "settings")
    key = str(first["loc"][1] if len(first["loc"]) > 1 else first["loc"][0])
    if first["type"] == "extra_forbidden":
        section = str(first["loc"][0])
        return UsageError(f"{where}: unknown key {key!r} in [{section}]", _did_you_mean(key, section))
    return UsageError(f"{where}: {dotted}: {first['msg']}", "`infer config show --origin` shows what is set where")
