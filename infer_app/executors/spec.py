"""What a lane needs, without what it is made of: so that the coordinator starts workers without loading torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infer_app.executors.lane import CpuLane


@dataclass(frozen=True, slots=True)
class LaneSpec:
    """Small and picklable: `open` is what a worker process is started with."""

    artifact: Path
    variant: str
    roots: tuple[Path, ...]
    max_bytes: int
    max_pixels: int

    def open(self) -> CpuLane:
        """A lane that has proved itself on the golden images. Raises ModelError."""
        from infer_app.executors.lane import CpuLane

        return CpuLane.open(self)
