"""What `infer model build` advises: to compare with one's own code, unless all was given by hand."""

import json

import pytest
import torch

from infer_app.cli.commands.build_command import BuildOptions
from infer_app.cli.model.build import build
from tests.support.detectors import Quadrants
from tests.support.networks import traced

CONFIG = {"task": "detect", "end2end": True, "imgsz": [64, 64], "names": {0: "red", 1: "green"}}
BY_HAND = {"recipe": "letterbox", "mean": 0, "std": 1, "channels": "rgb", "antialias": "false", "head": "boxes"}


@pytest.mark.parametrize(
    ("config", "given", "advised"),
    [
        (CONFIG, {}, "only the source states antialias, channels, head, mean, recipe, std; `infer model check net@"),
        (CONFIG, BY_HAND, None),
        ({}, BY_HAND | {"output": "detection", "size": 64}, "taken by default: labels (numbers); `infer model check"),
    ],
)
def test_a_build_advises_to_compare_what_was_not_given_by_hand(tmp_path, monkeypatch, capsys, config, given, advised):
    monkeypatch.chdir(tmp_path)
    files = {"config.txt": json.dumps({key: str(value) for key, value in config.items()})}
    torch.jit.save(traced(Quadrants(), shape=(64, 64)), "net.ts", _extra_files=files)
    build(BuildOptions(source="net.ts", name="net", set=[f"{key}={value}" for key, value in given.items()]))
    told = capsys.readouterr().err
    assert ("compares with your own code" in told, (advised or "") in told) == (bool(advised), True)
