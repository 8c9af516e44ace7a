#!/bin/sh
# An import of megadetector-utils 10.0.28's visualization_utils, which most of its modules import, sets Pillow's
# LOAD_TRUNCATED_IMAGES for the process: whatever else decodes there takes half a picture for a whole one from then on.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q megadetector-utils==10.0.28
"$folder/venv/bin/python" - <<'P'
import sys
from importlib.metadata import version
from PIL import ImageFile

before = ImageFile.LOAD_TRUNCATED_IMAGES
import megadetector.visualization.visualization_utils

after = ImageFile.LOAD_TRUNCATED_IMAGES
print(f"megadetector-utils {version('megadetector-utils')}, Pillow {version('pillow')}")
print(f"LOAD_TRUNCATED_IMAGES before the import: {before}, after it: {after}")
sys.exit(0 if (before, after) == (False, True) else 1)
P
