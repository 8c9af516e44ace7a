"""A backfill over days that were begun with another variant than the one that is chosen now."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from PIL import Image

from infer_app.base.day import Day
from infer_app.base.domain import ChunkResult, Output, Prediction
from infer_app.base.settings.load import load_settings
from infer_app.base.telemetry.display import Progress
from infer_app.run.group_run import open_group
from infer_app.run.run_day import run_day
from infer_app.run.stop import Stop
from infer_app.tables.choose_models import choose_artifacts, group_by_pixels
from infer_app.tables.results.runs import RunStore
from infer_app.tables.results.sink import Sink

TORCHSCRIPT, FP32 = "cpu-torchscript", "cpu-openvino-fp32"  # each goes on where the other is not there
DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]


def num_rings() -> int:
    """Rings of slots whose memory this process has mapped."""
    return Path("/proc/self/maps").read_text().count("/memfd:infer-ring")


def test_each_resumed_day_closes_the_executor_of_the_day_before(project):
    for day in DAYS:
        folder = project.photos / str(day)
        folder.mkdir()
        for colour in ("red", "blue"):
            Image.new("RGB", (20, 20), colour).save(folder / f"{colour}.jpg")
        project.add(f"photos/{day}", date=str(day))
    loaded = load_settings(project.folder / "infer.toml", {"run": {"executor": "cuda", "workers": 1}})
    before = num_rings()
    (models,) = group_by_pixels(choose_artifacts(loaded))
    with Stop(None) as stop, open_group(loaded, models, stop, Progress(quiet=True)) as group:
        (model,) = group.plan.models
        other = replace(model, variant=FP32 if model.variant == TORCHSCRIPT else TORCHSCRIPT, variant_sha256=None)
        database, source = group.project.database, group.project.source
        for day in DAYS[1:]:
            run_id = RunStore(database).open_run(day, other)
            first = Prediction(next(iter(source.select_new(day, model.model_id))), Output())
            Sink(database, model.model_id, other.variant, run_id).commit_chunk(ChunkResult(0, (first,), ()))
        project.write("UPDATE infer_runs SET state = 'done', predicted = 1")
        variants = []
        for day in DAYS:
            (report,) = run_day(group, day)
            assert (report.day.predicted, report.day.pending) == (2, 0)
            variants.append(report.variant)
            assert num_rings() - before == 1
        assert variants == [model.variant, other.variant, other.variant]
    assert num_rings() == before
