"""A clock for the modules that measure a run."""

import pytest

from infer_app.base.telemetry import display, tally


@pytest.fixture
def clock(monkeypatch):
    """Time that moves when told: clock.now += 1."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock = Clock()
    for module in (display, tally):
        monkeypatch.setattr(module, "time", clock)
    return clock
