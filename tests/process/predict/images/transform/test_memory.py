import subprocess
import sys

import pytest

SCRIPT = """
import re, resource, sys
import numpy as np
from pathlib import Path
from infer_app.predict.images.transform.to_pixels import transform
from infer_app.artifact.recipe import Recipe

recipe = Recipe("stretch", 64)
transform(np.zeros((70, 80, 3), np.uint8), recipe)  # what is loaded once
picture = np.zeros((2000, 3000, 3), np.uint8)
used = 1024 * int(re.search(r"VmData:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
resource.setrlimit(resource.RLIMIT_DATA, (used + int(float(sys.argv[1]) * picture.nbytes), -1))
try:
    transform(picture, recipe)
    print("resized")
except MemoryError:
    print("no memory")
"""


@pytest.mark.parametrize(
    ("share", "told"), [(0.5, "no memory"), (1.2, "no memory"), (1.9, "no memory"), (3, "resized")]
)
def test_a_picture_that_memory_is_missing_for_does_not_end_the_process(share, told):
    """The library would abort it, which counts as a crash that the file causes."""
    run = subprocess.run([sys.executable, "-c", SCRIPT, str(share)], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, f"{told}\n"), run.stderr
