import os
import signal
import time

import pytest

from infer_app.base.errors import Interrupted
from infer_app.run.stop import Stop


def test_the_last_words_of_a_run_are_cut_short_too():
    with Stop(grace_s=1, record_s=1):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(2):
            with pytest.raises(Interrupted):
                time.sleep(9)
