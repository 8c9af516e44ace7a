#!/bin/sh
# The wheels of pylibheif 1.25.0 (metadata: LGPL) and cykooz.heif 2.0.1 (MIT), which one installs to read HEIC, carry
# libx265, an encoder under the GPL, and no file that says so. pillow-heif 1.8.1 carries it too, and says so in
# LICENSES_bundled.txt, though its metadata is BSD. pi-heif 1.4.0, which only decodes, is the last of its kind.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" download -q --no-deps --only-binary :all: --python-version 3.11 --platform manylinux_2_34_x86_64 \
    --platform manylinux_2_28_x86_64 -d "$folder" pylibheif==1.25.0 cykooz.heif==2.0.1 pillow-heif==1.8.1 pi-heif==1.4.0
python3 - "$folder" <<'P'
import sys, zipfile
from email import message_from_bytes
from pathlib import Path

found = {}
for wheel in sorted(Path(sys.argv[1]).glob("*.whl")):
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        about = message_from_bytes(files.read(next(one for one in names if one.endswith(".dist-info/METADATA"))))
        licences = b"".join(files.read(one) for one in names if "LICENSE" in one)
    classified = [one.rpartition(" :: ")[2] for one in about.get_all("Classifier", ()) if one.startswith("License")]
    has_encoder, is_told = any("libx265" in one for one in names), b"x265" in licences
    print(about["Name"], about["Version"], about["License"], classified, f"{has_encoder=} {is_told=}")
    found[about["Name"].replace("_", "-").replace(".", "-")] = has_encoder, is_told
expected = {
    "pylibheif": (True, False), "cykooz-heif": (True, False), "pillow-heif": (True, True), "pi-heif": (False, False)
}
sys.exit(found != expected)
P
