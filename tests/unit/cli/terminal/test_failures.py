import errno
import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from infer_app.base.errors import UsageError
from infer_app.cli.terminal.failures import fail


@pytest.mark.parametrize("error", [UsageError("no file a\nb\x1b[1m", "is it c\nd?"), ValueError("a\nb\x1b[1m")])
def test_message_and_hint_of_a_failure_are_a_line_each(error, capsys):
    fail(error, as_json=False)
    *_, message, hint = capsys.readouterr().err.splitlines()
    assert message.startswith("infer: ")
    assert message.endswith(r"a\nb\x1b[1m")
    assert hint.startswith("  hint: ")


@pytest.mark.parametrize(
    ("error", "said", "advice"),
    [
        *(
            (OSError(number, "what happened", "/srv/some.jpg"), "/srv/some.jpg: what happened", advice)
            for number, advice in [
                (errno.ENOSPC, "free space"),
                (errno.EDQUOT, "free space"),
                (errno.EROFS, "make its disk writable"),
                (errno.EIO, "the disk or terminal failed"),
                (errno.EMFILE, "open files"),
                (errno.ENOMEM, "fewer workers"),
                (errno.EPIPE, "other end of a pipe"),
            ]
        ),
        (MemoryError("while it printed"), "Cannot allocate memory", "fewer workers"),
        (RuntimeError("can't start new thread"), "can't start new thread", "limit of processes"),
    ],
)
def test_what_the_machine_does_to_the_program_is_no_bug(error, said, advice, capfd):
    assert fail(error, as_json=True) == 74
    told = capfd.readouterr()
    assert told.err.splitlines()[0] == f"infer: {said}"
    answer = json.loads(told.out)
    assert (answer["error"], answer["exit_code"]) == (said, 74)
    assert advice in answer["hint"]


@pytest.mark.parametrize("of_printing", [OSError(errno.EIO, "no terminal"), MemoryError(), RecursionError()])
def test_a_failure_that_can_not_be_printed_keeps_its_exit_code(of_printing):
    class Lost(io.StringIO):
        def write(self, text):
            raise of_printing

    with redirect_stdout(Lost()), redirect_stderr(Lost()):
        assert fail(UsageError("no such flag"), as_json=True) == 2


@pytest.mark.parametrize("error", [ValueError("wrong"), FileNotFoundError(errno.ENOENT, "no such file", "a")])
def test_what_the_program_does_wrong_is_a_bug(error, capsys):
    assert fail(error, as_json=False) == 1
    assert "infer: a bug: " in capsys.readouterr().err
