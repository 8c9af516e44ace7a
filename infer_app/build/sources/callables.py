"""Find a user's function by its name, `package.module:function`, and read its code."""

import ast
import difflib
import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from infer_app.base.errors import ModelError, UsageError

_INSTALLED = ("site-packages", "dist-packages")


def resolve_callable(spec: str) -> Callable[..., object]:
    """Return the function that `package.module:function` names. Raises UsageError for the part that is wrong.

    The current folder is added to the front of sys.path, as by `python -m`, and stays there, because the function may
    import more when it is called.
    """
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{spec!r} names no function", "write package.module:function, for example my_model:make")
    if module_name.endswith(".py"):
        raise _names_file(Path(module_name), attribute)
    return _attribute(_import(module_name), attribute)


def source_code(function: Callable[..., object]) -> bytes:
    """Return the bytes of the file that defines a function. Raises UsageError if there is none."""
    try:
        path = inspect.getsourcefile(inspect.unwrap(function))
        return Path(path or "").read_bytes()
    except (TypeError, OSError) as error:
        raise UsageError(
            f"{function!r} has no source file", "write it in a Python file, so that a change to it can be noticed"
        ) from error


def standalone_code(function: Callable[..., object]) -> bytes:
    """Return `source_code` of a function. Raises ModelError if its file imports modules beside it."""
    code = source_code(function)
    folders = {Path(inspect.getsourcefile(inspect.unwrap(function)) or "").parent, Path.cwd()}
    own = [folder for folder in folders if folder.name not in _INSTALLED]
    for name in _imported(code):
        if any(_is_module(folder / name) for folder in own):
            raise ModelError(
                f"{function.__name__} imports the local module {name or '.'}, which the artifact will not contain",
                "keep the function in one file that imports installed packages only",
            )
    return code


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


def _import(name: str) -> ModuleType:
    if (path := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, path)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise UsageError(f"{name} imports {error.name}, which is not installed", "install it") from error
        raise UsageError(f"no module {name!r}", f"looked in {path} and in the installed packages") from error
    except Exception as error:
        raise UsageError(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _attribute(module: ModuleType, name: str) -> Callable[..., object]:
    found = getattr(module, name, None)
    if found is None:
        close = difflib.get_close_matches(name, dir(module), n=1)
        raise UsageError(f"{module.__name__} has no {name!r}", f"did you mean {close[0]}?" if close else "")
    if not callable(found):
        raise UsageError(f"{module.__name__}:{name} is a {type(found).__name__}, not a function")
    function: Callable[..., object] = found
    return function


def _imported(code: bytes) -> list[str]:
    """Return the packages that a file imports anywhere in it; an empty name for a relative import."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            names.append("" if node.level else (node.module or "").partition(".")[0])
    return names


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or any(path.glob("*.py"))
