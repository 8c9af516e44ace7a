import os
import signal
import time

import pytest

from infer_app.base.errors import Interrupted
from infer_app.run import stop as stop_module
from infer_app.run.stop import Stop


def test_the_last_words_of_a_run_are_cut_short_too(monkeypatch):
    monkeypatch.setattr(stop_module, "GRACE_S", 1)
    monkeypatch.setattr(stop_module, "RECORD_S", 1)
    with Stop():
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(Interrupted):
                time.sleep(9)
