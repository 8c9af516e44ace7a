"""`infer model verify`, and what runs have done with a variant's files: whether they may be replaced."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from infer_app.artifact.artifact import Artifact
from infer_app.artifact.model_names import short_name
from infer_app.artifact.models_folder import list_artifacts
from infer_app.base.day import Day
from infer_app.base.errors import InferError, UsageError
from infer_app.base.model_variants import variant_of
from infer_app.base.printing import counted, one_line
from infer_app.base.read_limits import ReadLimits
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.model.model import find_model, has_project, print_progress
from infer_app.predict.handlers.handler_spec import HandlerSpec, ModelSpec
from infer_app.predict.handlers.open_handler import open_cpu_handler
from infer_app.predict.runtimes.gpu_probe import runnable
from infer_app.tables.engine.connect import Database
from infer_app.tables.project_database import open_project_database, open_results_database
from infer_app.tables.results.runs import RunStore, check_not_running


@dataclass(frozen=True, slots=True)
class OtherFiles:
    """Predictions that were computed with other files of a variant than the model's present ones."""

    model_id: str
    variant: str
    predictions: int
    first: date
    last: date

    def __str__(self) -> str:
        days = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        what = counted(self.predictions, "prediction")
        return f"{what} of {days} were computed with other files of {self.variant} than these, which was built anew"


def verify(name: str | None, as_json: bool, config: Path | None) -> None:
    """Verify one model or all, and say what other files of their variants predicted.

    Raises ModelError for the first whose files or golden outputs differ from the build.
    """
    loaded = load_settings(config)
    folder, images = loaded.models_folder, loaded.images
    artifacts = list_artifacts(folder) if name is None else [find_model(name, config)]
    others: list[OtherFiles] = []
    for artifact in artifacts:
        artifact.verify()
        with redirect_stdout(sys.stderr):
            variants = [variant for device in ("cpu", "cuda") for variant in runnable(artifact.manifest, device)]
            models = tuple(ModelSpec.of(artifact, variant) for variant in variants)
            open_cpu_handler(HandlerSpec(models, ReadLimits((), images.max_bytes), images.max_pixels))
        found = list(_find_other_files(artifact, config))
        others += found
        if not as_json:
            this = f"{artifact.manifest.name} {artifact.manifest.model_id}"
            print(f"{this}: {counted(len(artifact.manifest.files), 'file')} and the golden images as built")
            for one in found:
                print(f"{this}: {one}")
    if as_json:
        listed = [asdict(one) | {"first": str(one.first), "last": str(one.last)} for one in others]
        print(json.dumps({"verified": [one.manifest.model_id for one in artifacts], "other_files": listed}))


def check_replaceable(artifact: Artifact, variants: Iterable[str], config: Path | None) -> None:
    """Check that no run needs the files of variants that are about to be built anew.

    Raises DayHeld while a run of the version is active, UsageError if a day that a variant began has pending images
    besides predictions, which `infer forget` may have deleted.
    """
    manifest = artifact.manifest
    present = [variant for variant in variants if variant in manifest.variants]
    if not present or (loaded := _with_database(config)) is None:
        return
    with open_project_database(loaded, read_only=True) as project:
        with project.database.read() as connection:
            check_not_running(connection, manifest.model_id)
        for variant in present:
            if not variant_of(variant).is_fitted:
                continue  # a day goes on with any build of it
            for one in project.run_store.dates_of_variant(manifest.model_id, variant):
                counts = project.count_day(Day.of(one, loaded.run.time_zone), manifest.model_id)
                if counts.predicted and counts.pending:
                    version = short_name(manifest.name, manifest.model_id)
                    raise UsageError(
                        f"{one} was begun with {variant} of {version}, and {counted(counts.pending, 'image')} of it "
                        f"{'is' if counts.pending == 1 else 'are'} pending: a day is finished with the files that it "
                        f"was begun with",
                        f"finish it first: `infer run --date {one} --lookback 0 --model {version}`",
                    )


def _find_other_files(artifact: Artifact, config: Path | None) -> Iterator[OtherFiles]:
    """Yield what the project's database has of the model that other files of its variants predicted."""
    manifest = artifact.manifest
    if (loaded := _with_database(config)) is None:
        return
    try:
        with open_results_database(loaded, read_only=True) as database:
            for variant in manifest.variants:
                sha256 = manifest.variant_sha256(variant)
                if found := RunStore(database).predicted_by_others(manifest.model_id, variant, sha256):
                    yield OtherFiles(manifest.model_id, variant, *found)
    except InferError as error:  # the files themselves can be verified without it
        print_progress(one_line(f"what other files predicted is not known: {error} ({error.hint})"))


def _with_database(config: Path | None) -> LoadedSettings | None:
    """Return the settings of the project, None without one and before its SQLite file is there."""
    if not has_project(config):
        return None
    loaded = load_settings(config)
    with Database(loaded.database_url, read_only=True) as database:
        is_there = database.file is None or database.file.exists()
    return loaded if is_there else None
