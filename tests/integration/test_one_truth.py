"""The state of a day is the same wherever it is shown: `infer run`, notifications, metrics, status and reports."""

import html
import json
import re
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.base.run_report import LEVELS
from infer_app.base.telemetry.metrics import read_samples

pytestmark = pytest.mark.slow

YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)


def all_done(project):
    project.add_photos(5, "yesterday")


def storage_gone(project):
    all_done(project)
    shutil.move(project.photos, project.folder / "away")


EARLY = "the last run ended early"
# (how the night begins, flags of its run, its exit code, what everything says of the day: state, level, code, notes)
CASES = [
    (all_done, (), 0, ("done", "good", 0, [])),
    (all_done, ("--max-duration", "0"), 75, ("pending", "attention", 75, ["5 pending", f"{EARLY}: exit code 75"])),
    (storage_gone, (), 14, ("failed", "failed", 14, ["the last run failed: exit code 14", "5 pending"])),
]


@pytest.mark.parametrize(
    ("begin", "flags", "exit_code", "said"), CASES, ids=[" ".join([case[0].__name__, *case[1]]) for case in CASES]
)
def test_everything_that_shows_a_day_says_the_same_of_it(project, listener, begin, flags, exit_code, said):
    begin(project)
    expected = dict(zip(("state", "level", "exit_code", "notes"), said, strict=True))
    remarks = "; ".join(expected["notes"])
    told = {"INFER_WEBHOOK__URL": f"{listener.url}/hook", "INFER_PING__URL": f"{listener.url}/ping"}
    told["INFER_METRICS__TEXTFILE"] = "infer.prom"
    ran = project.infer_json("run", *flags, "--report", exit_code=exit_code, **told)
    log = project.errors
    heard = {one.path: one.body for one in listener.heard}
    (ping,) = (body for path, body in heard.items() if path.startswith("/ping") and not path.endswith("/start"))
    webhook = json.loads(heard["/hook"])
    assert webhook["exit_code"] == ran["exit_code"] == exit_code
    if exit_code != 14:  # an error is all that a failed run prints
        assert ran["day_state"] == webhook["day_state"] == expected
        assert remarks in log
        assert remarks in ping
        metrics = read_samples((project.folder / "infer.prom").read_text())
        (level,) = (value for (name, _), value in metrics.items() if name == "infer_day_needs_attention")
        assert [*LEVELS][int(level)] == expected["level"]
    (row,) = [row for row in project.infer_json("status")["days"] if row["date"] == str(YESTERDAY)]
    assert row["day_state"] == expected
    assert row["state"] == expected["state"]
    line = next(line for line in project.infer("status", COLUMNS="200").splitlines() if str(YESTERDAY) in line)
    assert remarks in line
    (told,) = project.infer_json("report")["reports"]
    assert (told["state"], told["notes"]) == (expected["level"], expected["notes"])
    assert told["models"][0]["day_state"] == expected
    (data,) = json.loads((project.folder / "reports" / f"{YESTERDAY}.json").read_text())["models"]
    assert data["day_state"] == expected
    counts = {name: row[name] for name in ("eligible", "predicted", "rejected", "pending")}
    assert data["counts"] == counts
    page = html.unescape((project.folder / "reports" / f"{YESTERDAY}.html").read_text())
    assert ("all is well" in page) is (expected["level"] == "good")
    assert remarks in page
    index = html.unescape((project.folder / "reports/index.html").read_text())
    assert re.findall(rf'<td class="(\w+)" title="{YESTERDAY}: ', index) == [expected["level"]]
    assert re.findall(rf">{YESTERDAY}</a></td><td>(.*?)</td>", index) == ([remarks] if remarks else [])


def test_colours_for_a_terminal_and_symbols_where_they_can_be_shown(project):
    all_done(project)
    project.infer("run")
    plain = project.infer("status", "--days", "2", PYTHONIOENCODING="ascii")
    assert ("done" in plain, "✓" in plain, "\x1b[" in plain) == (True, False, False)
    colored = project.infer("status", "--days", "2", FORCE_COLOR="1", PYTHONIOENCODING="utf-8")
    assert "\x1b[32m✓ done" in colored
