"""The report of a good night."""

from datetime import date

from infer_app.base.run_report import DayCounts, RunReport

REPORT = RunReport(
    date=date(2026, 11, 19),
    model="pets",
    model_id="0123456789abcdef",
    variant="cpu-torchscript",
    run_id="20261120T020000-abcdef",
    executor="cpu",
    device="cpu",
    selected=41_203,
    predicted=41_188,
    rejected=15,
    reasons={"truncated": 15},
    day=DayCounts(41_203, 41_188, 15, 0),
    seconds=2760.0,
    images_per_second=14.9,
    steady_images_per_second=15.04,
    limit_images_per_second=16.0,
    stages={"read": 0.1, "decode": 1.7, "transform": 0.004, "model": 14.1},
    exit_code=0,
    limited_by="model",
    share_of_limit=0.94,
    bottleneck="model",
)
