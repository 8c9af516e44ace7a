from dataclasses import replace

from infer_app.ask.changes import Before, changes
from infer_app.ask.drift import Drift
from infer_app.ask.run_figures import run_figures
from infer_app.base.run_report import DayCounts
from tests.support.day_rows import run_row

RUN = run_figures(run_row() | {"error": None, "selected": 1000, "throughput": {"steady_images_per_second": 100.0}})
BEFORE = Before([1000, 1000], predicted=1990, rejected=10, runs=[RUN, RUN, RUN])


def test_a_usual_day_has_nothing_notable():
    found = changes(DayCounts(1000, 995, 5, 0), RUN, BEFORE, Drift(0.02, 0.05, 1990))
    assert [(one.what, one.now, one.before, one.is_notable) for one in found] == [
        ("Images", "1,000", "1,000 a day", False),
        ("Rejected", "0.50 %", "0.50 %", False),
        ("Images/s", "100", "100", False),
        ("Label drift", "0.02", "≤ 0.05 by chance", False),
    ]


def test_what_differs_is_notable():
    run = replace(RUN, steady_images_per_second=70.0, variant="cpu-openvino-int8", versions={"python": "3.12.1"})
    found = changes(DayCounts(400, 300, 100, 0), run, BEFORE, Drift(0.2, 0.05, 1990))
    assert [(one.what, one.now) for one in found if one.is_notable] == [
        ("Images", "400"),
        ("Rejected", "25 %"),
        ("Images/s", "70"),
        ("Label drift", "0.20"),
        ("Variant", "cpu-openvino-int8"),
        ("python", "3.12.1"),
    ]


def test_a_run_of_a_few_images_is_no_measure_of_speed():
    few = replace(RUN, selected=5)
    assert "Images/s" not in [one.what for one in changes(DayCounts(5, 5, 0, 0), few, BEFORE, None)]
