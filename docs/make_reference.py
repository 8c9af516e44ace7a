"""Write the pages of docs/reference from the program itself: `python docs/make_reference.py`."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from infer_app.artifact.model_file import about, template
from infer_app.base.settings import sections
from infer_app.cli import load_app

FOLDER = Path(__file__).parent / "reference"
GENERATED = "<!-- Written by docs/make_reference.py: change the program instead. -->\n"
TYPES = {
    "SecretStr": "text",
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "Path": "path",
}


def make() -> dict[str, str]:
    """File name and text of each generated page."""
    pages = {"commands.md": _commands(), "settings.md": _settings(), "model-file.md": _model_file()}
    return {name: "\n".join(lines) + "\n" for name, lines in pages.items()}


def _model_file() -> Iterator[str]:
    yield f"{GENERATED}\n# Model file\n"
    yield "The keys of a model, which `infer model build` takes from a model file, from options and `--set key=value`,"
    yield "which have precedence, and from the source itself, for what neither states. Paths are relative to the file."
    yield "`infer model describe` writes a file by what a source says about itself.\n"
    yield "| key | is | unless stated |\n|---|---|---|"
    for key, (_, line) in template().items():
        default = line.partition(" = ")[2]
        yield f"| `{key}` | {_text(about(key))} | {f'`{default}`' if default.strip('[]') else ''} |"


def _commands() -> Iterator[str]:
    yield f"{GENERATED}\n# Commands\n"
    yield "Every command takes `--help`. The exit codes are those of [this list](../exit-codes.md).\n"
    yield from _command(typer.main.get_command(load_app()), ["infer"])


def _command(command: Any, words: list[str]) -> Iterator[str]:
    children = getattr(command, "commands", {})
    if len(words) > 1:
        yield f"{'#' * len(words)} {' '.join(words)}\n"
        yield f"{_text(command.help)}\n"
    parameters = [one for one in command.params if one.name not in ("version", "install_completion", "show_completion")]
    if parameters:
        yield "| | |\n|---|---|"
        yield from (f"| {_names(one)} | {_text(_help(one))} |" for one in parameters)
        yield ""
    for name in children:
        yield from _command(children[name], [*words, name])


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name).upper()}`"
    value = f" {parameter.metavar}".replace("|", r"\|") if parameter.metavar else ""
    names = ", ".join(f"`{name}{value}`" for name in (*parameter.opts, *parameter.secondary_opts))
    return f"{names} (required)" if parameter.required else names


def _help(parameter: Any) -> str:
    default = parameter.default
    is_shown = default not in (None, False, (), []) and not callable(default) and not parameter.required
    text = parameter.help or ""
    return f"{text}  [default: {default}]" if is_shown and "[default:" not in text else text


def _settings() -> Iterator[str]:
    yield f"{GENERATED}\n# Settings\n"
    yield "Keys of `infer.toml`, by section. Paths are relative to that file. A variable overrides the file:"
    yield "`INFER_RUN__LOOKBACK=1` is `lookback = 1` under `[run]`. A flag overrides both."
    yield "An unknown key or `INFER_…__…` variable is an error, a setting's name with one underscore too; other"
    yield "variables that begin with `INFER_` are ignored."
    yield "`infer config show --origin` prints what is in force and where it comes from.\n"
    for section, field in sections.Settings.model_fields.items():
        model = field.annotation
        assert model is not None
        comments = _comments(model)
        yield f"## [{section}]\n"
        if model.__doc__ and model.__doc__ != sections.Section.__doc__:
            yield f"{inspect.getdoc(model)}\n"
        yield "| key | is | unless set | |\n|---|---|---|---|"
        for key, value in model.model_fields.items():
            yield f"| `{key}` | {_type(value.annotation)} | {_default(value)} | {_text(comments.get(key, ''))} |"
        yield ""


def _comments(model: type) -> dict[str, str]:
    """Return the comment beside each field of the class, the only place that says what a setting means."""
    source = inspect.getsource(model)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    by_line = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            found[node.target.id] = " ".join(by_line[line].lstrip("# ") for line in lines if line in by_line)
    return found


def _type(annotation: Any) -> str:
    text = getattr(annotation, "__name__", str(annotation)) if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"\b(?:pathlib|pydantic\.types|typing|infer_app\.settings\.sections)\.", "", text)
    if choices := re.findall(r"'([^']+)'", text):
        return ", ".join(f"`{choice}`" for choice in choices if not choice.startswith("_"))
    if text.startswith("tuple"):
        return "list"
    name = re.split(r"[\s|\[]", text.replace("Annotated[", "").replace("Optional[", ""))[0].rstrip(",")
    return TYPES.get(name, name)


def _default(field: Any) -> str:
    value = field.default
    if value is None or value == ():
        return ""
    secret = getattr(value, "get_secret_value", None)
    value = secret() if secret else value
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _text(text: str | None) -> str:
    """For a cell of a table."""
    joined = " ".join((text or "").split())
    return joined.replace("|", "\\|").replace("<", "&lt;").replace("[default: ", "Default: ").removesuffix("]")


if __name__ == "__main__":
    for name, page in make().items():
        (FOLDER / name).write_text(page)
