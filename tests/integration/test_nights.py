"""What a person hears of the nights, and what only shows over several: by `jobs/daily.sh`, with a clock that is set."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.support.clock import Clock, needs_faketime
from tests.support.listeners import Recorder

pytestmark = pytest.mark.slow


@needs_faketime
def test_yesterday_is_one_day_for_all_parts_of_a_command_that_runs_over_midnight(project, tmp_path):
    clock, server = Clock(tmp_path / "clock"), Recorder()
    clock.set(datetime(2026, 11, 21, 23, 0, tzinfo=UTC))
    server.gates["/end"] = SimpleNamespace(wait=lambda: clock.set(datetime(2026, 11, 22, 0, 10, tzinfo=UTC)))
    project.set("webhook", url=f"{server.url}/end")  # told when the run is over, before its report is written
    project.add_photos(3)
    project.infer("run", "--report", **clock.environ)
    server.close()
    assert project.rows("SELECT day, selected FROM infer_runs ORDER BY day DESC LIMIT 1") == [("2026-11-20", 3)]
    assert [page.name for page in (project.folder / "reports").glob("2*.html")] == ["2026-11-20-colors.html"]
