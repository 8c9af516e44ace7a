"""The check, on a node of a cluster, of its version and of whether it can read the images."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from infer_app import __version__
from infer_app.base.domain import NOT_READ
from infer_app.base.locations import shown
from infer_app.base.read_limits import ReadLimits
from infer_app.predict.images.read.bad_image import BadImage
from infer_app.predict.images.read.read_image import read_image


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The result of the check of one node."""

    host: str
    infer_app: str  # its version
    num_tried: int
    unreachable: tuple[str, ...]  # locations, each with its reason


def check_node(locations: Sequence[str], limits: ReadLimits) -> NodeCheck:
    """Try to read the locations on this node."""
    failures = [failure for location in locations if (failure := _why_unreachable(location, limits))]
    return NodeCheck(socket.gethostname(), __version__, len(locations), tuple(failures))


def _why_unreachable(location: str, limits: ReadLimits) -> str | None:
    try:
        read_image(location, limits)
    except BadImage as bad:
        return f"{shown(location)}: {bad.reason}" if bad.reason in NOT_READ else None
    return None
