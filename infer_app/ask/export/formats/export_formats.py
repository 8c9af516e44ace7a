"""The formats of exported files: what each can hold, and the writing of one with its counts."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from infer_app.base.domain import OutputKind
from infer_app.base.errors import UsageError

if TYPE_CHECKING:
    from infer_app.ask.export.exported_images import Export, ExportCounts
    from infer_app.ask.export.exported_model import ModelVersions

_ALL = frozenset[str](OutputKind)
_OBJECTS = frozenset[str]({OutputKind.DETECTION})
_LABELS = frozenset[str]({OutputKind.CLASSIFICATION})


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its name at the command line."""

    title: str
    kinds: frozenset[str]  # of output that it can hold
    writer: str  # its file in this folder, and its function of a path and an Export: loaded when one is written
    of_objects: frozenset[str] = _LABELS  # of a second network's output that it can hold
    rejected_as: str = ""  # what rejected images are in it, which it counts then; empty: they are not
    is_folder: bool = False

    def holds(self, model: ModelVersions) -> bool:
        return model.kind in (self.of_objects if model.detector else self.kinds)

    def write(self, path: Path, export: Export) -> None:
        module, _, function = self.writer.partition(":")
        getattr(import_module(f"{__package__}.{module}"), function)(path, export)


FORMATS = {
    "coco": Format("COCO", _OBJECTS, "coco:write_dataset"),
    "megadetector": Format("MegaDetector", _OBJECTS, "megadetector:write_megadetector", rejected_as="failures"),
    "camtrap-dp": Format(
        "Camtrap DP", _OBJECTS | _LABELS, "camtrap_dp:write_camtrap_dp", rejected_as="unclassified", is_folder=True
    ),
    "label-studio": Format("Label Studio", _OBJECTS | _LABELS, "label_studio:write_tasks"),
    "yolo": Format("YOLO", _OBJECTS, "yolo:write_yolo", is_folder=True),
    "csv": Format("CSV", _ALL, "tables:write_csv", _ALL),
    "jsonl": Format("JSON lines", _ALL, "tables:write_jsonl", _ALL),
    "parquet": Format("Parquet", _ALL, "parquet:write_parquet", _ALL),
}
FOLDERS = " and ".join(sorted((name for name, one in FORMATS.items() if one.is_folder), reverse=True))


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
        raise UsageError(f"--to {path} has no name of its own", f"name a file, or for {FOLDERS} a new folder")
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
