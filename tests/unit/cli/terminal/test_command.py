"""Commands: the function that each names is there and takes its options."""

import ast
import inspect
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from infer_app.cli import commands


def declared() -> Iterator[Any]:
    """(options, function, its settings) of each command: `@command(group, name, function, …)` and its class."""
    for path in Path(commands.__path__[0]).glob("*_command*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and isinstance(call := node.decorator_list[0], ast.Call):
                options = getattr(import_module(f"{commands.__name__}.{path.stem}"), node.name)
                if call.args:
                    settings = {one.arg for one in call.keywords}
                    yield pytest.param(options, ast.literal_eval(call.args[2]), settings, id=node.name)


@pytest.mark.parametrize(("options", "function", "settings"), list(declared()))
def test_the_function_of_a_command_takes_its_options(options: Any, function: str, settings: set[str]):
    module, _, name = function.partition(":")
    taken = inspect.signature(getattr(import_module(f"infer_app.cli.{module}"), name), eval_str=True)
    if "as_record" in settings:
        assert [one.annotation for one in taken.parameters.values()] == [options]
    else:
        taken.bind(**{one.name: None for one in fields(options)})
