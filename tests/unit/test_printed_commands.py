"""Every command, option and setting that a message names exists: collected from the source, parsed by the command.

A text of the program names a command in backticks, or it is a command and nothing else. Capitals stand for what a user
fills in, and what is interpolated is replaced by a value.
"""

import ast
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from infer_app.base.settings.sections import Settings
from infer_app.cli import load_app

PACKAGE = Path(__file__).parents[2] / "infer_app"
INFER: Any = typer.main.get_command(load_app())
VALUE = "1"  # of what is interpolated: a text, a name, a number
PLACEHOLDERS = {"COMMAND": "run", "DATE": "2026-11-20", "FILE": "f", "FOLDER": "f", "ID": "7", "NAME": "pets"}
PLACEHOLDERS |= {
    "SOURCE": "f.ts",
    "N": "1",
    "PATH": "f",
    "URL": "sqlite:///f.db",
    "PATH_OR_URL": "f",
    "A": "a",
    "B": "b",
}
OPTIONS = re.compile(r"options?\b|_option\(")  # what holds options, and may be empty
COMMAND = re.compile(r"infer (?:" + "|".join(INFER.commands) + r")\b(?!-)")
IN_BACKTICKS = re.compile(r"`([^`]*)`")
IN_CODE = re.compile(r"<code>([^<]*)</code>")
OPTION = re.compile(r"(?<![\w/-])--[a-z][a-z0-9-]*")
SETTING = re.compile(r"\[(\w+)\] ([a-z_0-9]+)")
NO_KEYS = {VALUE, "names", "out", "yourself", "can", "no"}  # words after a section that is meant as a whole
# Options of other programs.
FOREIGN = {"--force-reinstall", "--build-arg", "--no-optional-locks", "--always", "--dirty", "--exclude"}


class Text(NamedTuple):
    """A text of the program with its place; `is_printed`: it is neither a docstring nor a comment."""

    place: str
    text: str
    is_printed: bool

    @property
    def in_backticks(self) -> list[str]:
        pattern = IN_CODE if self.place.endswith(".html") else IN_BACKTICKS
        return pattern.findall(self.text)

    @property
    def commands(self) -> list[str]:
        whole = [self.text] if COMMAND.match(self.text) and self.is_printed else []
        return whole or [one for one in self.in_backticks if one == "infer" or one.startswith("infer ")]

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def texts_of(path: Path) -> Iterator[Text]:
    file, source = str(path.relative_to(PACKAGE)), path.read_text()
    if path.suffix == ".html":
        yield Text(file, re.sub(r"{{.*?}}", VALUE, source), True)
        return
    if path.suffix == ".toml":  # a template whose comments may name a command without its arguments
        yield Text(file, source, False)
        return
    tree = ast.parse(source)
    docstrings, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstrings |= {id(one.value) for one in node.body[:1] if isinstance(one, ast.Expr)}
        if isinstance(node, ast.JoinedStr):
            parts |= {id(one) for one in ast.walk(node)} - {id(node)}
    for node in ast.walk(tree):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield Text(f"{file}:{node.lineno}", "".join(map(value_of, node.values)), True)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Text(f"{file}:{node.lineno}", node.value, id(node) not in docstrings)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(f"{file}:{token.start[0]}", token.string, False)


def value_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    return "" if OPTIONS.search(ast.unparse(node.value)) else VALUE


TEXTS = [
    text
    for suffix in ("py", "html", "toml")
    for path in sorted(PACKAGE.rglob(f"*.{suffix}"))
    for text in texts_of(path)
]
PRINTED = [text for text in TEXTS if text.is_printed]


def parse(command: str, *, is_whole: bool) -> None:
    """Parse a command as `infer` does; if it is not whole, what it requires may be left out."""
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(command)[1:]]
    command_at, name = INFER, "infer"
    if words in ([], ["--help"], ["--version"]):
        return
    context = command_at.make_context(name, list(words), resilient_parsing=not is_whole)
    while hasattr(command_at, "commands"):
        rest = [*context._protected_args, *context.args]
        if not rest and not is_whole:
            return
        name, command_at, rest = command_at.resolve_command(context, rest)
        unknown = set(OPTION.findall(" ".join(rest))) - options_of(command_at)
        if unknown and not hasattr(command_at, "commands"):
            raise ValueError(f"no option {unknown} of {name}")
        if "--help" in rest:
            return
        context = command_at.make_context(name, rest, parent=context, resilient_parsing=not is_whole)


def options_of(command: Any) -> set[str]:
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return {"--help"}.union(own, *(options_of(child) for child in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("text", [text for text in TEXTS if text.commands], ids=lambda text: text.place)
def test_a_command_that_is_named_can_be_run(text: Text):
    for command in text.commands:
        assert "…" not in command
        capitals = set(re.findall(r"(?<![\w.:-])[A-Z][A-Z_]*\b(?![.:])", command))
        assert capitals <= PLACEHOLDERS.keys()
        parse(command, is_whole=text.is_printed)


def test_a_command_is_in_backticks_or_alone():
    bare = [
        str(text)
        for text in PRINTED
        if COMMAND.search(re.sub("|".join((IN_BACKTICKS.pattern, IN_CODE.pattern)), "", text.text))
        and not COMMAND.match(text.text)
    ]
    assert bare == []


def test_an_option_that_is_named_exists():
    known = options_of(INFER) | FOREIGN
    unknown = [str(text) for text in PRINTED if set(OPTION.findall(text.text)) - known]
    assert unknown == []


def test_a_setting_that_is_named_exists():
    wrong = []
    for text in PRINTED:
        for section, key in SETTING.findall(text.text):
            field = Settings.model_fields.get(section)
            if field is not None and key not in field.annotation.model_fields.keys() | NO_KEYS:
                wrong.append(str(text))
    assert wrong == []
