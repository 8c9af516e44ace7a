import io
import logging

import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.base.telemetry.display import Progress
from tests.conftest import DAY

ONE, OTHER = ImageRef("1", "/1.jpg"), ImageRef("2", "/2.jpg")
RESULT = ChunkResult(0, (Prediction(ONE, Output()),), (Broken(OTHER, Reason.EMPTY, "", "read"),))


def never():
    raise AssertionError("it is not shown")


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO, "infer_app")


def on_terminal(is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    return Progress(stream=stream), stream


def test_quiet_counts_nothing_and_says_nothing(caplog, capsys):
    with Progress(quiet=True).of_day(DAY, never, None) as advance:
        advance(RESULT)
    assert (caplog.messages, capsys.readouterr()) == ([], ("", ""))


@pytest.mark.parametrize(("limit", "total"), [(None, "12,000"), (20, "20"), (99_999, "12,000")])
def test_under_cron_a_line_a_minute_with_the_rate_of_all_so_far(caplog, clock, limit, total):
    progress, shown = on_terminal(False)
    with progress.of_day(DAY, lambda: 12_000, limit) as advance:
        for second in (0, *[30] * 298, 59, 60, 61, 119, 120):
            clock.now = 100.0 + second
            advance(RESULT)
    assert caplog.messages == [
        f"2026-11-20: 602 of {total} images, 10 a second",
        f"2026-11-20: 608 of {total} images, 5.1 a second",
    ]
    assert shown.getvalue() == ""


def test_on_a_terminal_a_bar_that_is_gone_at_the_end(caplog, clock):
    progress, shown = on_terminal(True)
    with pytest.raises(ZeroDivisionError), progress.of_day(DAY, lambda: 4, None) as advance:
        advance(RESULT)
        clock.now += 3600
        advance(RESULT)
        raise ZeroDivisionError  # it is taken away after an error too
    assert "2026-11-20" in shown.getvalue()
    assert "4/4" in shown.getvalue()
    assert "\x1b[?25h" in shown.getvalue()  # the cursor is back
    assert caplog.messages == []


def test_a_day_with_nothing_to_do_shows_no_bar():
    progress, shown = on_terminal(True)
    with progress.of_day(DAY, lambda: 0, None):
        pass
    assert shown.getvalue() == ""
