"""The formats of exported files: what each can hold, and the writing of one with its counts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infer_app.ask.export.exported_images import Export, ExportCounts
from infer_app.ask.export.exported_model import CLASSIFICATION, DETECTION, ModelVersions
from infer_app.ask.export.formats import camtrap_dp, coco, label_studio, megadetector, parquet, tables, yolo
from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError

ALL_KINDS = frozenset[str](OutputKind)


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its name at the command line."""

    title: str
    kinds: frozenset[str]  # of output that it can hold
    write: Callable[[Path, Export], None]
    of_objects: frozenset[str] = frozenset({CLASSIFICATION})  # of a second network's output that it can hold
    rejected_as: str = ""  # what rejected images are in it, which it counts then; empty: they are not
    is_folder: bool = False

    def holds(self, model: ModelVersions) -> bool:
        return model.kind in (self.of_objects if model.detector else self.kinds)


_OBJECTS = frozenset({DETECTION})
FORMATS = {
    "coco": Format("COCO", _OBJECTS, coco.write_dataset),
    "megadetector": Format("MegaDetector", _OBJECTS, megadetector.write_megadetector, rejected_as="failures"),
    "camtrap-dp": Format(
        "Camtrap DP",
        _OBJECTS | {CLASSIFICATION},
        camtrap_dp.write_camtrap_dp,
        rejected_as="unclassified",
        is_folder=True,
    ),
    "label-studio": Format("Label Studio", _OBJECTS | {CLASSIFICATION}, label_studio.write_tasks),
    "yolo": Format("YOLO", _OBJECTS, yolo.write_yolo, is_folder=True),
    "csv": Format("CSV", ALL_KINDS, tables.write_csv, ALL_KINDS),
    "jsonl": Format("JSON lines", ALL_KINDS, tables.write_jsonl, ALL_KINDS),
    "parquet": Format("Parquet", ALL_KINDS, parquet.write_parquet, ALL_KINDS),
}


def find_format(name: str, model: ModelVersions) -> Format:
    """Return a format by its name. Raises UsageError if there is none, or if it can't hold the model's outputs."""
    found = FORMATS.get(name)
    if found is None:
        raise UsageError(f"unknown format {name!r}", f"choose one of: {', '.join(FORMATS)}")
    if not found.holds(model):
        others = ", ".join(other for other, known in FORMATS.items() if known.holds(model))
        of = " of objects" if model.detector else ""
        raise UsageError(f"{found.title} can't hold {model.kind} outputs{of}", f"formats that can: {others}")
    return found


def write_export(name: str, path: Path, export: Export) -> ExportCounts:
    """Write a file, or a folder of YOLO, at once, and return what it holds; rejected images are counted anyway.

    They are counted first: an image that a run predicts meanwhile is counted and in the file, and never neither.
    Raises UsageError for what the format can't hold, or where nothing can be written.
    """
    chosen = find_format(name, export.model)
    if not path.name:
        raise UsageError(f"--to {path} has no name of its own", "name a file, or for yolo and camtrap-dp a new folder")
    try:
        if not chosen.is_folder and path.is_dir():
            raise UsageError(f"--to {path} is a folder", f"name a file: {chosen.title} is one file")
        if not chosen.rejected_as:
            export.counts.num_rejected = sum(1 for _ in export.read_rejected())
        chosen.write(path, export)
    except BlockingIOError:
        raise UsageError(f"another export writes {path}", "wait for it, or name another folder by --to") from None
    except FileExistsError:
        raise UsageError(f"--to {path} exists and is not empty", "name a new folder, or remove this one") from None
    except OSError as error:
        raise UsageError(
            f"--to {path} can't be written: {error.strerror or error}", "is there such a folder, with space left?"
        ) from None
    return export.counts
