"""Let torchvision be imported beside a torch of another build, as the wheel for CUDA beside the CPU's torch.

Its library of operators can't be loaded then, and its import fails where it describes two of them, which no test uses.
With this folder on PYTHONPATH they are declared when torchvision is imported first.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

OPERATORS = ("nms", "qnms")


class DeclareOperators:
    """Finds nothing, but does what is missing: once, since a test may put another torchvision in its place."""

    library = None  # its declarations end with it

    def find_spec(self, name, path=None, target=None):
        if name == "torchvision" and self.library is None and (found := PathFinder.find_spec(name)):
            declare(Path(found.origin).parent)


def declare(package):
    import torch

    try:
        for file in package.glob("_C*.so"):
            torch.ops.load_library(file)
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in OPERATORS:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        DeclareOperators.library = library


sys.meta_path.insert(0, DeclareOperators())
