"""Specifications from which worker processes open their handlers: the coordinator makes them without loading torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infer_app.artifact.artifact import Artifact, open_artifact
from infer_app.base.errors import ModelChanged
from infer_app.base.read_limits import ReadLimits


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model of a handler: its folder and variant, and the network that a worker must find there."""

    artifact: Path
    variant: str
    model_id: str
    files: Mapping[str, str]  # checksums of the variant's files, by path
    batch_size: int | None = None  # images; None: the variant's own

    @classmethod
    def of(cls, artifact: Artifact, variant: str, batch_size: int | None = None) -> ModelSpec:
        manifest = artifact.manifest
        return cls(artifact.folder, variant, manifest.model_id, manifest.files_of(variant), batch_size)

    def open(self) -> Artifact:
        """Open the model. Raises ModelChanged if the folder holds another network than the coordinator found in it.

        Only manifests are compared: `Artifact.read` verifies the bytes that are loaded by this manifest's checksums.
        """
        artifact = open_artifact(self.artifact)
        if changes := self._changes(artifact):
            raise ModelChanged(
                f"{self.artifact} was changed since this run has opened it: {changes}",
                "nothing was written by the changed model; run again, and build models in folders of their own, not in "
                "one that a run uses",
            )
        return artifact

    def _changes(self, artifact: Artifact) -> str:
        manifest = artifact.manifest
        if manifest.model_id != self.model_id:
            return f"it holds model {manifest.model_id} in place of {self.model_id}"
        if self.variant not in manifest.variants:
            return f"{self.variant} is gone"
        found = manifest.files_of(self.variant)
        paths = sorted({path for path, _ in self.files.items() ^ found.items()})
        return f"{self.variant} has other files ({', '.join(paths)})" if paths else ""


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """The specification of a handler, which is pickled into a worker process and opened there."""

    models: tuple[ModelSpec, ...]  # all but second networks with one recipe: images are decoded once for all of them
    read: ReadLimits
    max_pixels: int
    num_threads: int = 1  # of one worker
    detector: int | None = None  # index of the model whose objects second networks take
    second_networks: frozenset[int] = frozenset()  # their indices; others take whole pictures
    idle: frozenset[int] = frozenset()  # indices of models that are not opened: no chunk is for them
