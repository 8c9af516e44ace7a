"""Convert the TorchScript file to OpenVINO's format once: FILE.ts becomes FILE.xml and FILE.bin, in full precision.

The graph takes uint8 pictures as a decoder makes them, (n, size, size, 3), and normalises them itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openvino
import torch
from openvino.preprocess import PrePostProcessor
from pixels import input_of


def main() -> None:
    path, taken = Path(sys.argv[1]), input_of(sys.argv[2])
    shape = openvino.PartialShape([-1, 3, taken.size, taken.size])
    # With its type, which no convolution tells of a network that has none.
    graph = openvino.convert_model(torch.jit.load(path).eval(), input=[(shape, openvino.Type.f32)])
    pictures = PrePostProcessor(graph)
    pictures.input().tensor().set_element_type(openvino.Type.u8).set_layout(openvino.Layout("NHWC"))
    pictures.input().model().set_layout(openvino.Layout("NCHW"))
    pictures.input().preprocess().convert_element_type(openvino.Type.f32).mean(taken.mean).scale(taken.std)
    openvino.save_model(pictures.build(), path.with_suffix(".xml"), compress_to_fp16=False)


if __name__ == "__main__":
    main()
