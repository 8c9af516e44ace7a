"""A backfill over days that were begun with another variant than the one that is chosen now."""

from datetime import date
from pathlib import Path

from PIL import Image

from infer_app.database.results.runs import RunModel, RunStore
from infer_app.database.results.sink import Sink
from infer_app.day import Day
from infer_app.domain import ChunkResult, Output, Prediction
from infer_app.pipeline.job import choose_artifacts, open_job
from infer_app.pipeline.run_day import run_day
from infer_app.pipeline.stop import Stop
from infer_app.settings.load import load_settings
from infer_app.telemetry.progress import Progress

TORCHSCRIPT, FP32 = "cpu-torchscript", "cpu-openvino-fp32"  # each goes on where the other is not there
DAYS = [Day.of(date(2026, 11, number), "UTC") for number in (18, 19, 20)]


def num_rings() -> int:
    """Rings of slots whose memory this process has mapped."""
    return Path("/proc/self/maps").read_text().count("/memfd:infer-ring")


def test_each_resumed_day_closes_its_executor(project):
    for day in DAYS:
        folder = project.photos / str(day)
        folder.mkdir()
        for colour in ("red", "blue"):
            Image.new("RGB", (20, 20), colour).save(folder / f"{colour}.jpg")
        project.add(f"photos/{day}", date=str(day))
    loaded = load_settings(project.folder / "infer.toml", {"run": {"executor": "cuda", "workers": 1}})
    before, during = num_rings(), []
    with open_job(loaded, choose_artifacts(loaded)) as job:
        (model,) = job.models
        other = RunModel(model.name, model.model_id, FP32 if model.variant == TORCHSCRIPT else TORCHSCRIPT, {})
        database, source = job.project.database, job.project.source
        for day in DAYS:
            run_id = RunStore(database).open_run(day, other)
            first = Prediction(next(iter(source.select_new(day, model.model_id))), Output())
            Sink(database, model.model_id, other.variant, run_id).commit_chunk(ChunkResult(0, (first,), ()))
        project.write("UPDATE infer_runs SET state = 'done'")
        with Stop(None) as stop:
            for day in DAYS:
                with job.for_day(day) as resumed:
                    assert resumed is not job
                    during.append(num_rings() - before)
                (report,) = run_day(job, day, stop, Progress(quiet=True))
                assert (report.day.predicted, report.day.pending, report.variant) == (2, 0, other.variant)
                during.append(num_rings() - before)
    assert during == [2, 1] * len(DAYS)
    assert num_rings() == before
