"""Find a user's function by its name, `package.module:function`."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from infer_app.errors import UsageError


def resolve_callable(spec: str, folder: Path | None = None) -> Callable[..., Any]:
    """Return the function that `package.module:function` names. Raises UsageError for the part that is wrong.

    The current folder, and `folder` if given, are added to the front of sys.path, as by `python -m`, and stay there,
    because the function may import more when it is called.
    """
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{spec!r} names no function", "write package.module:function, for example my_model:make")
    if module_name.endswith(".py"):
        raise _names_file(Path(module_name), attribute)
    module = _import(module_name, [Path.cwd(), *([folder] if folder else [])])
    return _attribute(module, attribute)


def _names_file(path: Path, attribute: str) -> UsageError:
    """Return the error for a file in place of a module, with the name that the module would have."""
    if not path.is_file():
        return UsageError(f"no file {path}", "write package.module:function, without .py, for example my_model:make")
    try:
        dotted = ".".join(path.resolve().relative_to(Path.cwd().resolve()).with_suffix("").parts)
    except ValueError:  # it lies elsewhere
        hint = f"call infer in {path.resolve().parent}, and name {path.stem}:{attribute}"
    else:
        hint = f"did you mean {dotted}:{attribute}?"
    return UsageError(f"{path} is a file and not a module's name", hint)


def _import(name: str, folders: list[Path]) -> ModuleType:
    for folder in reversed(folders):
        if (path := str(folder.resolve())) not in sys.path:
            sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UsageError(f"{name} imports {error.name}, which is not installed", "install it") from error
        raise UsageError(
            f"no module {name!r}", f"looked in {', '.join(map(str, folders))} and in the installed packages"
        ) from error
    except Exception as error:
        raise UsageError(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _attribute(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if found is None:
        close = difflib.get_close_matches(name, dir(module), n=1)
        raise UsageError(f"{module.__name__} has no {name!r}", f"did you mean {close[0]}?" if close else "")
    if not callable(found):
        raise UsageError(f"{module.__name__}:{name} is a {type(found).__name__}, not a function")
    function: Callable[..., Any] = found
    return function
