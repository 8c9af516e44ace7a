"""`infer export` and `infer sample`."""

import json
import logging
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path

from infer_app.ask.export.exported_images import DatedImages, Export
from infer_app.ask.export.exported_model import ModelVersions
from infer_app.ask.export.formats.export_formats import FORMATS, find_format, write_export
from infer_app.ask.export.formats.label_studio import config_path
from infer_app.ask.export.image_paths import ImagePaths
from infer_app.ask.export.sampling.choose_images import Chosen, choose_images, keep_one_per_event
from infer_app.ask.export.sampling.copy_photos import copy_photos
from infer_app.ask.export.species import SpeciesNames
from infer_app.base.day import between
from infer_app.base.errors import UsageError
from infer_app.base.locations import shown
from infer_app.base.printing import counted
from infer_app.base.settings.load import LoadedSettings, load_settings
from infer_app.cli.commands.look_commands import ExportOptions, SampleOptions
from infer_app.cli.look.show_events import check_events
from infer_app.tables.cameras.captures import Captures
from infer_app.tables.label_groups import read_all_labels
from infer_app.tables.project_database import open_project_database, read_limits
from infer_app.tables.queries.thresholds import describe_unset
from infer_app.tables.rows.results import Result

log = logging.getLogger(__name__)
SHOWN_LABELS = 5  # of those that no model has
SAMPLE_FORMATS = ("coco", "label-studio")


def export_days(options: ExportOptions) -> None:
    """Write the predictions of the days; print how many there are, and how many images are not in the file."""
    loaded = load_settings(options.config)
    days = loaded.days(options.date, options.until or options.date)
    with open_project_database(loaded, read_only=True, camera=options.camera) as project:
        model = ModelVersions.find(project, days, options.model)
        find_format(options.format, model)
        captures = Captures(project, days[0].zone) if loaded.wants_facts else None
        paths = _paths(loaded, options.relative_to)
        species = SpeciesNames.read(loaded.export.species and loaded.resolve(loaded.export.species))
        export = replace(Export.of_days(project, days, model, paths, options.min_score, captures), species=species)
        _warn_of_unknown(species.keys() - project.database.ask(read_all_labels), loaded)
        project.ask(project.source.note_unlisted, between(days))
        # Counted first: an image that is predicted meanwhile is then pending and in the file, and never in neither.
        num_pending = sum(project.count_pending(day, *model.all_ids) for day in days)
        write_export(options.format, options.to, export)
        names = [export.of_boxes.model.name] if options.min_score is None else []
        unset = describe_unset(project.database, names)
        if not export.counts.num_images:
            log.warning("%s has no predictions for these days; `infer status` lists days that have some", model.name)
    num_rejected = export.counts.num_rejected
    if options.as_json:
        counts = {"rejected": num_rejected, "pending": num_pending, "left_out": export.counts.left_out}
        print(json.dumps(_numbers(options, export) | counts))
    else:
        print(_written(options, export) + _left_out(options.format, export, num_pending), *unset, sep="\n")


def _warn_of_unknown(labels: Set[str], loaded: LoadedSettings) -> None:
    if labels:
        shown_labels = ", ".join(map(repr, sorted(labels)[:SHOWN_LABELS]))
        log.warning("%s: no model has these labels: %s", loaded.export.species, shown_labels)


def export_sample(options: SampleOptions) -> None:
    """Write the chosen images and, if asked for, copy their photos, choosing others for those that can't be copied."""
    if options.format not in SAMPLE_FORMATS:
        raise UsageError(f"a sample can't be {options.format!r}", f"choose one of: {', '.join(SAMPLE_FORMATS)}")
    loaded = load_settings(options.config)
    if options.one_per_event:
        check_events(loaded)
    paths = _paths(loaded, options.relative_to or options.copy_to)
    if options.copy_to is not None:
        _check_copies(loaded, options.copy_to, options.relative_to, paths)
    export, not_copied = _sample(loaded, options, paths)
    for location, why in not_copied.items():
        log.warning("not copied, and not in the sample: %s: %s", shown(location), why)
    if not_copied and export.counts.num_images < options.count:
        log.warning(
            "the sample has %d images instead of %d: no others can be copied", export.counts.num_images, options.count
        )
    if options.as_json:
        print(json.dumps(_numbers(options, export) | {"not_copied": len(not_copied)}))
    else:
        print(_written(options, export))


def _sample(loaded: LoadedSettings, options: SampleOptions, paths: ImagePaths) -> tuple[Export, dict[str, str]]:
    """Choose the images, copy those that are to be, and write them; return also why others are not copied."""
    days = loaded.days(options.date, options.until or options.date)
    with open_project_database(loaded, read_only=True, camera=options.camera) as project:
        model = ModelVersions.find(project, days, options.model)
        find_format(options.format, model)
        captures = Captures(project, days[0].zone) if loaded.wants_facts else None
        export = Export.of_days(project, days, model, paths, captures=captures)

        def choose(is_wanted: Callable[[Result], bool]) -> Chosen:
            def read() -> DatedImages:
                return (dated for dated in export.read_predictions() if is_wanted(dated[1]))

            one_per_event = options.one_per_event
            found = keep_one_per_event(read, options.by, export, options.seed) if one_per_event else read()
            return choose_images(found, options.by, options.count, export, options.seed)

        if options.copy_to is None:
            chosen, not_copied = choose(lambda _: True), dict[str, str]()
        else:
            chosen, not_copied = copy_photos(choose, options.copy_to, read_limits(loaded))
        export = replace(export, read_predictions=lambda: chosen, read_rejected=tuple)
        write_export(options.format, options.to, export)
    return export, not_copied


def _check_copies(loaded: LoadedSettings, folder: Path, named_in: Path | None, paths: ImagePaths) -> None:
    """Raise UsageError if a run would register the copies, or the folder of the names does not hold them."""
    for watched in loaded.watched:
        if folder.resolve().is_relative_to(watched.resolve()):
            raise UsageError(
                f"--copy-to {folder.resolve()} is in {watched}, whose files the next run registers as new images",
                "name a folder outside of it",
            )
    if paths.find(str(folder.absolute() / "photo.jpg")) is None:
        raise UsageError(
            f"--copy-to {folder} is not in --relative-to {named_in}",
            "name a folder that holds the copies, or leave --relative-to out",
        )


def _paths(loaded: LoadedSettings, folder: Path | None) -> ImagePaths:
    return ImagePaths(None if folder is None else str(folder), loaded.path_map)


def _numbers(options: ExportOptions | SampleOptions, export: Export) -> dict[str, object]:
    counts = export.counts
    return {
        "file": str(options.to),
        "format": options.format,
        "model": export.model.name,
        "model_id": export.model.model_ids[0],
        "images": counts.num_images,
        "objects": counts.num_objects if export.model.has_objects else None,
    }


def _written(options: ExportOptions | SampleOptions, export: Export) -> str:
    counts = export.counts
    objects = f", {counted(counts.num_objects, 'object')}" if export.model.has_objects else ""
    beside = f", its labelling configuration is {config_path(options.to)}" if options.format == "label-studio" else ""
    return f"{options.to}: {counted(counts.num_images, 'image')}{objects}{beside}"


def _left_out(name: str, export: Export, num_pending: int) -> str:
    """Return what is to be said of the images that have no prediction."""
    what, num_rejected = FORMATS[name], export.counts.num_rejected
    are = {number: "is" if number == 1 else "are" for number in (num_rejected, num_pending)}
    of_rejected = f"in it as {what.rejected_as}" if what.rejected_as else f"not in a {what.title} file"
    if num_detected := export.counts.num_detected:
        of_rejected = f"in it as failures or, {num_detected} of them, with the objects of {export.of_boxes.model.name}"
    rejected = f"; {counted(num_rejected, 'rejected image')} {are[num_rejected]} {of_rejected}" if num_rejected else ""
    pending = f"; {counted(num_pending, 'image')} {are[num_pending]} pending" if num_pending else ""
    lacking = ", ".join(f"{number:,} without {lacks}" for lacks, number in sorted(export.counts.left_out.items()))
    left_out = f"; {counted(export.counts.left_out.total(), 'image')} left out: {lacking}" if lacking else ""
    return rejected + left_out + pending
