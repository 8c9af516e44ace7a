"""Find the model that a build would make if it is there already, and write one in one step or not at all."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from infer_app.errors import ModelError, UsageError
from infer_app.model_names import short_name
from infer_app.models.artifact.artifact import Artifact, open_artifact
from infer_app.models.artifact.manifest import Manifest
from infer_app.models.verification.golden import check_golden


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The model that a build has made, if its folder is there: what is built now must give the same."""

    folder: Path
    built_now: Manifest
    has_golden: bool  # whether golden images are given

    def find(self, load: Callable[[bytes], np.ndarray], predict: Callable[[np.ndarray], np.ndarray]) -> Artifact | None:
        """Return the model; None if it is missing or damaged and must be written again.

        Raises UsageError if other golden images are given, and ModelError if `predict` gives other outputs for its own.
        """
        artifact = _intact_artifact(self.folder)
        if artifact is None:
            return None
        self._check_same_golden_images(artifact.manifest)
        try:
            check_golden(artifact, load, predict)
        except ModelError as error:
            version = f"{artifact.manifest.name}@{artifact.manifest.model_id}"
            raise ModelError(
                f"{version} is there already, but what was built now gives other outputs: {error.message}",
                "something that the id does not cover has changed, such as a library; nothing was changed here. Go "
                f"back to that version of it; or build under another name; or `infer model remove {version}` and build "
                "again",
            ) from error
        return artifact

    def _check_same_golden_images(self, existing: Manifest) -> None:
        theirs, ours = ([one.files[path] for path in one.golden] for one in (existing, self.built_now))
        if self.has_golden and theirs != ours:
            version = short_name(existing.name, existing.model_id)
            raise UsageError(
                f"{version} is there already, with other golden images, which its variants were compared on",
                f"`infer model remove {version}`, then build it again: its results stay; or leave --golden out",
            )


def _intact_artifact(folder: Path) -> Artifact | None:
    if not folder.is_dir():
        return None
    try:
        artifact = open_artifact(folder)
        artifact.verify()
    except ModelError:
        return None
    return replace(artifact, reused=True)


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder beside `folder`; it replaces `folder` on success and is removed after a failure."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.parent / f".building-{secrets.token_hex(8)}"
    building.mkdir()  # not mkdtemp, whose folders are private: cron may run as another user
    try:
        yield building
        _move_in(building, folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _move_in(building: Path, folder: Path) -> None:
    if folder.exists():  # damaged, or made by a build that just ended: the same model in either case
        old = Path(tempfile.mkdtemp(prefix=".replaced-", dir=folder.parent))
        folder.replace(old)
        building.replace(folder)
        shutil.rmtree(old, ignore_errors=True)
        return
    building.replace(folder)
