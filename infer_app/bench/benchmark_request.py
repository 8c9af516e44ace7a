"""Define the request that is passed to each measured process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infer_app.bench.workload import PixelReaders, Workload
from infer_app.images.decode.decoder import DecodeLimits
from infer_app.images.read.read_image import ReadLimits
from infer_app.models.artifact.artifact import open_artifact
from infer_app.settings.load import Flags, load_settings


@dataclass(frozen=True, slots=True)
class BenchmarkRequest:
    """The files, and all that is needed to load and predict them."""

    paths: Sequence[str]
    config: Path
    flags: Flags
    artifact: Path
    roots: tuple[Path, ...]
    num_workers: int

    def to_json(self) -> str:
        fields = {"paths": list(self.paths), "flags": dict(self.flags), "num_workers": self.num_workers}
        paths = {"config": str(self.config), "artifact": str(self.artifact), "roots": list(map(str, self.roots))}
        return json.dumps(fields | paths)

    @classmethod
    def from_json(cls, text: str) -> BenchmarkRequest:
        fields = json.loads(text)
        paths = {"config": Path(fields["config"]), "artifact": Path(fields["artifact"])}
        return cls(**fields | paths | {"roots": tuple(map(Path, fields["roots"]))})

    def workload(self) -> Workload:
        """Load the settings and the model that the request names."""
        loaded = load_settings(self.config, self.flags)
        limits = loaded.images
        readers = PixelReaders(
            artifact=open_artifact(self.artifact),
            read_limits=ReadLimits(self.roots, limits.max_bytes),
            decode_limits=DecodeLimits(limits.max_pixels),
        )
        return Workload(self.paths, readers, self.num_workers, loaded)
