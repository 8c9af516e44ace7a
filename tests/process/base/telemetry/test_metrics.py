import shutil
import subprocess

import pytest

from infer_app.base.telemetry.metrics import render_metrics
from tests.unit.base.telemetry.test_metrics import GOOD, NOW, PROJECT


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus")
def test_promtool_finds_nothing():
    data = render_metrics({}, PROJECT, [GOOD], 0, 12.5, NOW)
    check = subprocess.run(["promtool", "check", "metrics"], input=data, capture_output=True)
    assert (check.returncode, check.stdout, check.stderr) == (0, b"", b"")
