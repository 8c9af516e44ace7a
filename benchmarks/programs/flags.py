"""The flags that all programs share."""

from __future__ import annotations

import argparse

from network import READY
from pixels import DECODERS


def read_flags(about: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("database")
    parser.add_argument("network", help="a TorchScript file")
    parser.add_argument("--decoder", choices=DECODERS, default="pillow")
    parser.add_argument("--ready", choices=READY, default="saved", help="how the network is made ready")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="that load images; with Ray, that predict")
    parser.add_argument("--threads", type=int, default=0, help="of the network; 0 is torch's default")
    parser.add_argument("--limit", type=int, default=-1, help="images; -1 is all")
    return parser.parse_args()
