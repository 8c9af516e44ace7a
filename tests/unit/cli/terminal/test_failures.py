import pytest

from infer_app.cli.terminal.failures import fail
from infer_app.errors import UsageError


@pytest.mark.parametrize("error", [UsageError("no file a\nb\x1b[1m", "is it c\nd?"), ValueError("a\nb\x1b[1m")])
def test_message_and_hint_of_a_failure_are_a_line_each(error, capsys):
    fail(error, as_json=False)
    *_, message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("infer: ")
    assert message.endswith(r"a\nb\x1b[1m")
    assert hint.startswith("  hint: ")
