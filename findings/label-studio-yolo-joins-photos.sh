#!/bin/sh
# label-studio-sdk 2.1.2, which makes Label Studio's exports, names a file of YOLO labels by the last part of a photo's
# path alone: of cam1/a.jpg and cam2/a.jpg one file is left, with the boxes of the last photo, and nothing is said.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q label-studio-sdk==2.1.2
cd "$folder"
"$folder/venv/bin/python" - <<'P'
import json, sys
from importlib.metadata import version
from pathlib import Path
from label_studio_sdk.converter import Converter

CONFIG = """<View>
  <Image name="image" value="$image"/>
  <RectangleLabels name="label" toName="image"><Label value="fox"/></RectangleLabels>
</View>"""


def task(number, path, x):
    value = {"x": x, "y": 10, "width": 20, "height": 20, "rotation": 0, "rectanglelabels": ["fox"]}
    box = {"from_name": "label", "to_name": "image", "type": "rectanglelabels", "value": value}
    box |= {"original_width": 100, "original_height": 100}
    annotations = [{"id": number, "result": [box]}]
    return {"id": number, "data": {"image": f"/data/local-files/?d={path}"}, "annotations": annotations}


Path("tasks.json").write_text(json.dumps([task(1, "cam1/a.jpg", 10), task(2, "cam2/a.jpg", 60)]))
Converter(CONFIG, None, download_resources=False).convert_to_yolo("tasks.json", "yolo", is_dir=False)
found = {path.name: path.read_text().split() for path in Path("yolo/labels").iterdir()}
print(f"label-studio-sdk {version('label-studio-sdk')}")
print(f"labels of cam1/a.jpg, a fox at 20 % of its width, and of cam2/a.jpg, a fox at 70 %: {found}")
sys.exit(0 if list(found) == ["a.txt"] and len(found["a.txt"]) == 5 and abs(float(found["a.txt"][1]) - 0.7) < 1e-6 else 1)
P
