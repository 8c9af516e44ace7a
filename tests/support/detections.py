"""Objects of a detection model in a project's database, as a run would have written them."""

from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import sha256
from pathlib import Path

from PIL import Image, ImageOps

from infer_app.base.day import Day
from infer_app.base.domain import DetectedObject, FileFacts, ImageRef, Output, Prediction
from infer_app.base.size import Size
from infer_app.tables.engine.connect import Database
from infer_app.tables.results.runs import RunModel, RunStore
from tests.support.projects import DATE, Project
from tests.support.results import commit

ANIMALS = RunModel("animals", "a1" * 8, "cpu-torchscript", {"output": {"kind": "detection"}, "crop": None})


def write_detections(project: Project, found: Mapping[str, Sequence[DetectedObject]], registered: bool = True) -> None:
    """Write the objects of the day's images, by the end of their locations, in a run that is done."""
    good = []
    for name, objects in found.items():
        ((image_id, location),) = project.rows(
            f"SELECT CAST(id AS TEXT), location FROM infer_images WHERE location LIKE '%{name}'"
        )
        with Image.open(location) as image:
            size = Size(*ImageOps.exif_transpose(image).size)
        label, score = (objects[0].label, objects[0].score) if objects else (None, None)
        output = Output(label, score, objects=tuple(objects))
        facts = FileFacts(sha256=sha256(Path(location).read_bytes()).hexdigest(), picture=size)
        good.append(Prediction(ImageRef(image_id, location), output, facts))
    with Database(f"sqlite:///{project.folder / 'infer.db'}") as database:
        run_id = RunStore(database).open_run(Day.of(date.fromisoformat(DATE), "UTC"), ANIMALS)
        commit(database, good, (), run_id, ANIMALS.model_id, ANIMALS.variant, registered=registered)
    project.write("UPDATE infer_runs SET state = 'done', exit_code = 0 WHERE id = ?", run_id)
