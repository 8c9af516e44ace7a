from dataclasses import replace

import pytest

from infer_app.cli.run.run_output import print_dry_run_summary
from infer_app.model_variants import OPENVINO_INT8, VariantTrial
from infer_app.run_report import Speedup
from infer_app.telemetry.summary_line import Forecast
from tests.support.run_reports import REPORT

TRIAL = VariantTrial(OPENVINO_INT8, 256, 0.993, 0.98, 0.2, 0.4, 0.99, True)
NIGHT = Forecast(412_000, 7_202.0, 2.0)


@pytest.mark.parametrize(
    ("trial", "rest", "line"),
    [
        (
            TRIAL,
            NIGHT,
            "measured here: 2.0 × faster overall with W, 60 min less; for every run, of all models: "
            '[run] precision = "int8"',
        ),
        (
            TRIAL,
            Forecast(0, 2.0, 2.0),
            'measured here: 2.0 × faster overall with W; for every run, of all models: [run] precision = "int8"',
        ),
        (None, NIGHT, "measured here: 2.0 × faster overall with W, 60 min less"),
        (
            replace(TRIAL, meets_min_agreement=False),
            NIGHT,
            "not advised, since 99.0% must be kept: 2.0 × faster overall with W",
        ),
    ],
)
def test_a_dry_run_says_what_another_precision_would_bring_and_how_to_set_it(trial, rest, line, capsys):
    is_advised = trial is None or trial.meets_min_agreement
    report = replace(REPORT, alternatives=(Speedup("W", 2.0, is_advised, trial),))
    print_dry_run_summary([([report], rest)], 0, as_json=False)
    assert line in capsys.readouterr().out.splitlines()
