import pytest

from infer_app.base.errors import UsageError
from infer_app.build.sources.callables import resolve_callable


@pytest.fixture
def user_folder(tmp_path, monkeypatch):
    """The current folder, with a module of the user's in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # so that it leaves sys.path with the test
    return tmp_path


def test_a_function_is_found_in_the_current_folder_and_in_a_package(user_folder):
    (user_folder / "answers_here.py").write_text("def make():\n    return 42\n")
    assert resolve_callable("answers_here:make")() == 42
    assert resolve_callable("os.path:join")("a", "b") == "a/b"


@pytest.mark.parametrize(
    ("spec", "message", "hint"),
    [
        *((spec, "names no function", "package.module:function") for spec in ("my_model.make", ":make", "my_model:")),
        ("no_such_module_here:make", "no module 'no_such_module_here'", "looked in"),
        ("os.no_such_part:make", "no module 'os.no_such_part'", "looked in"),
        ("no_such_file.py:make", "no file no_such_file.py", "without .py"),
        ("json:loadz", "json has no 'loadz'", "did you mean load"),
        ("math:pi", "math:pi is a float, not a function", ""),
    ],
)
def test_a_wrong_name_says_which_part_is_wrong(user_folder, spec, message, hint):
    with pytest.raises(UsageError, match=message) as caught:
        resolve_callable(spec)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0\n", "importing user_module failed: ZeroDivisionError"),
        ("import no_such_package_here\n", "user_module imports no_such_package_here"),
    ],
)
def test_a_module_that_fails_to_import_says_why(user_folder, code, message):
    (user_folder / "user_module.py").write_text(code)
    with pytest.raises(UsageError, match=message):
        resolve_callable("user_module:make")
