"""Flags that all programs share."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from network import READY
from pixels import DECODERS


def read_flags(about: str | None, ready: Collection[str] = READY) -> argparse.Namespace:
    """Read the command line of a program; `ready` are its ways to prepare the network, the default first."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("database")
    parser.add_argument("network", help="a TorchScript file")
    parser.add_argument("--decoder", choices=DECODERS, default="pillow")
    parser.add_argument("--ready", choices=ready, default=next(iter(ready)), help="how the network is prepared")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2, help="workers that load images; with Ray, that predict")
    parser.add_argument("--threads", type=int, default=0, help="threads for the network; 0: torch's default")
    parser.add_argument("--limit", type=int, default=-1, help="number of images; -1: all")
    return parser.parse_args()
