"""`infer static list`, `hide` and `keep`: places where a detector gives a box again and again."""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from infer_app.ask.figures.figures import Figures
from infer_app.ask.figures.repeated_boxes import RepeatedBox, find_repeated_boxes
from infer_app.ask.page.thumbnails import PictureOfObject, ThumbnailLimits, make_thumbnails
from infer_app.base.atomic_file import replace_file
from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError, os_errors_as
from infer_app.base.printing import counted, printable
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.project.camera_commands import load_with_cameras
from infer_app.cli.terminal.output import show_table
from infer_app.tables.cameras.hidden_places import decide
from infer_app.tables.project_database import ProjectDatabase, open_project_database, open_results_database, read_limits


def list_static(name: str, crops: Path | None, config: Path | None) -> None:
    """Print the places of which nothing was decided."""
    loaded = load_with_cameras(config)
    with open_project_database(loaded, read_only=True) as project:
        model, model_id = project.versions.models_in_use(name)[0]
        if Figures(project, model_id).kind != OutputKind.DETECTION:
            raise UsageError(f"{name} gives no boxes", "name a detector: `infer model list` prints what models give")
        found = project.ask(find_repeated_boxes, project, model, model_id)
        written = None if crops is None else _write_crops(loaded, project, found, crops)
    if found:
        show_table(RepeatedBox._fields[:-2], [one[:-2] for one in found], model)
    print(counted(len(found), "place") + ("" if written is None else f", {counted(written, 'picture')} in {crops}"))


def _write_crops(loaded: LoadedSettings, project: ProjectDatabase, found: Sequence[RepeatedBox], folder: Path) -> int:
    located = project.ask(project.source.find_listed, {one.picture for one in found})
    parts = {one.number: PictureOfObject(located[one.picture], *one.box) for one in found if one.picture in located}
    made = make_thumbnails([*parts.values()], ThumbnailLimits(read_limits(loaded), loaded.images.max_pixels))
    with os_errors_as(UsageError, f"can't write into {folder}", "name another folder with --crops"):
        folder.mkdir(parents=True, exist_ok=True)
        for number in (one for one, part in parts.items() if part in made):
            replace_file(folder / f"{number}.jpg", made[parts[number]].jpeg)
    return len(made)


def _decide(numbers: Collection[int], config: Path | None, *, is_hidden: bool) -> None:
    with open_results_database(load_settings(config)) as database:
        decided = decide(database, numbers, is_hidden=is_hidden)
    for number, camera, label in decided:
        print(printable(f"{number} {'hidden' if is_hidden else 'kept'}: {label} of {camera}"))


hide, keep = (partial(_decide, is_hidden=one) for one in (True, False))
