"""No deletion finds its rows by the id that a source gives: a picture of another source may have the same one."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.unit.test_architecture import PACKAGE

USERS_IDS = {"image_id", "infer_image_id", "id_text"}
OF_SQL = re.compile("ColumnElement|FromClause|Query|Select|Subquery")  # annotations of what may hold a condition
ADDS = {"append", "extend", "insert", "update"}


class Code:
    """Modules by their names: which expressions delete rows, and all that these are put together of."""

    def __init__(self, modules: dict[str, str]) -> None:
        self.modules = {ast.parse(source): name for name, source in modules.items()}
        self.scopes = dict[ast.AST, tuple[ast.AST, ...]]()  # of each node: its module, and the functions that it is in
        self.parents = dict[ast.AST, ast.AST]()
        self.bound = defaultdict[tuple[ast.AST, str], list[ast.AST]](list)  # to a name in a scope
        self.conditions = defaultdict[str, list[ast.AST]](list)  # functions that may return one, by name
        for module in self.modules:
            self._read(module, (module,))
        self.deleting = {"delete"}  # names of functions and classes
        while more := {name for one in self.deletions() for name in self._given_to(one)} - self.deleting:
            self.deleting |= more

    def _read(self, node: ast.AST, scopes: tuple[ast.AST, ...]) -> None:
        self.scopes[node] = scopes
        for name, value in bindings(node):
            self.bound[scopes[0 if name.startswith("self.") else -1], name].append(value)
        if isinstance(node, ast.FunctionDef):
            scopes = (*scopes, node)
            if node.returns and OF_SQL.search(ast.unparse(node.returns)):
                self.conditions[node.name].append(node)
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            self._read(child, scopes)

    def deletions(self) -> list[ast.AST]:
        """Return each expression that is, or that has the name of, a deletion, with all that is called on it."""
        calls = {one for one in self.scopes if isinstance(one, ast.Call) and called(one.func) in self.deleting}
        values = self.bound.items()
        held = {place for place, some in values if any(node in calls for one in some for node in ast.walk(one))}
        names = {name for _, name in held}
        used = [one for one in self.scopes if known_as(one) in names and not held.isdisjoint(self._places(one))]
        return [self._whole(one) for one in (*calls, *used)]

    def behind(self, expression: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes of an expression, of what its names are bound to, and of functions that return conditions."""
        left, seen = [expression], set[ast.AST]()
        while left:
            for node in {*ast.walk(left.pop())} - seen:
                seen.add(node)
                left += [one for place in self._places(node) for one in self.bound.get(place, ())]
                left += self.conditions.get(called(node), ())
                yield node

    def _places(self, node: ast.AST) -> list[tuple[ast.AST, str]]:
        return [(scope, name) for scope in self.scopes[node] if (name := known_as(node))]

    def _whole(self, node: ast.AST) -> ast.AST:
        while isinstance(above := self.parents[node], ast.Attribute) or getattr(above, "func", None) is node:
            node = above
        return node

    def _given_to(self, deletion: ast.AST) -> Iterator[str]:
        """Yield the names of the functions, or classes, that are given what a deletion is put together of."""
        used = {known_as(node) for node in self.behind(deletion)}
        for function in self.scopes[deletion][1:]:
            given = [one for one in ast.walk(function.args) if isinstance(one, ast.arg) and one.arg in used]
            if any(OF_SQL.search(ast.unparse(one.annotation)) for one in given if one.annotation):
                yield self.parents[function].name if function.name == "__init__" else function.name


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a node binds, or adds something to, with what that is, but for columns of tables."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDS:
        yield known_as(node.func.value), node
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    value = getattr(node, "iter", None) or getattr(node, "value", None)
    if value and called(getattr(value, "func", value)) != "Table":
        names = {known_as(one) for target in targets if target for one in ast.walk(target)}
        yield from ((name, value) for name in names - {"", "self"})


def known_as(node: ast.AST) -> str:
    """Return the name of a variable, or of an attribute of an object in its own methods."""
    is_own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
    return f"self.{node.attr}" if is_own else node.id if isinstance(node, ast.Name) else ""


def called(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else known_as(node)


def is_users_id(node: ast.AST) -> bool:
    """Return whether a node names a column of such ids, rather than the attribute of a row that was read."""
    if isinstance(node, ast.Attribute):
        return node.attr in USERS_IDS and (called(node.value) in ("c", "columns") or node.attr == "id_text")
    if isinstance(node, ast.Constant):
        return not USERS_IDS.isdisjoint(re.findall(r"\w+", str(node.value)))
    return isinstance(node, ast.keyword) and node.arg in USERS_IDS


def by_users_id(code: Code) -> list[str]:
    found = [one for one in code.deletions() if any(map(is_users_id, code.behind(one)))]
    texts = (one for one in code.scopes if isinstance(one, (ast.Constant, ast.JoinedStr)))
    found += [one for one in texts if re.search(r"DELETE .*\bimage_id\b", ast.unparse(one), re.DOTALL)]
    return [f"{code.modules[code.scopes[one][0]]}:{one.lineno}: {ast.unparse(one)}" for one in found]


def test_no_deletion_has_a_condition_on_the_users_id():
    sources = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    code = Code({name: source for name, source in sources.items() if re.search(r"sqlalchemy|delete|\.c\.", source)})
    deleting = {code.modules[code.scopes[one][0]] for one in code.deletions()}
    assert {name for name, source in sources.items() if re.search(r"[\s._]delete\(", source)} <= deleting
    assert by_users_id(code) == []


RULES = """
def rule(numbers) -> ColumnElement[bool]:
    return pictures.c.image_id.in_(numbers)

def forget_all(connection, table, condition: ColumnElement[bool]):
    connection.execute(delete(table).where(condition))
"""


@pytest.mark.parametrize(
    ("statements", "is_found"),
    [
        ("delete(pictures).where(pictures.c.image_id == ids[0])", True),
        ("pictures.delete().where(pictures.c['image_id'] == ids[0])", True),
        ("delete(pictures).filter_by(image_id=ids[0])", True),
        ("delete(pictures).where(source.id_text == ids[0])", True),
        ("delete(predictions).where(predictions.c.picture.in_(select(pictures.c.id).where(rule(ids))))", True),
        ("its = pictures.c.image_id.in_(ids); delete(pictures).where(its)", True),
        ("its = []; its.append(column('image_id').in_(ids)); delete(pictures).where(*its)", True),
        ("statement = delete(pictures); statement.where(pictures.c.image_id.in_(ids))", True),
        ("self.its = pictures.c.image_id.in_(ids); self.delete = backend.bulk_delete(pictures, self.its)", True),
        ("forget_all(connection, pictures, pictures.c.image_id.in_(ids))", True),
        ("connection.execute(text(f'DELETE FROM {pictures} WHERE image_id = :id'), ids)", True),
        ("numbers = [found[row.image_id] for row in rows]; delete(pictures).where(pictures.c.id.in_(numbers))", False),
        ("its = pictures.c.image_id.in_(ids); connection.scalars(select(pictures.c.id).where(its))", False),
    ],
)
def test_a_deletion_by_the_users_id_is_found_however_it_is_written(statements, is_found):
    backend = "def bulk_delete(table, condition: ColumnElement[bool]):\n    return delete(table).where(condition)\n"
    code = Code({"rules.py": RULES, "backend.py": backend, "forget.py": f"def forget(self, ids):\n    {statements}"})
    assert bool(by_users_id(code)) == is_found
