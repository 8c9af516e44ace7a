"""What a cluster changes in this process and on this machine is as it was once it is closed or could not be opened.

By a stand-in for Ray, which fails where it is told to.
"""

import os
import signal
import subprocess
from pathlib import Path

from infer_app.predict.cluster.ray_cluster import _end_all_in


def test_only_processes_of_the_folder_are_ended(tmp_path):
    folders = tmp_path / "ours", tmp_path / "ours-too"
    sleepers = [
        subprocess.Popen(["sleep", "60"], env=os.environ | {"TMPDIR": str(folder)})
        for folder in (*folders, folders[0] / "below")
    ]
    try:
        for sleeper in sleepers:  # until it has become what is asked for
            while b"sleep" not in Path(f"/proc/{sleeper.pid}/cmdline").read_bytes():
                pass
        _end_all_in(folders[0])
        assert sleepers[0].wait(10) == -signal.SIGKILL
        assert [sleeper.poll() for sleeper in sleepers[1:]] == [None, None]
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
