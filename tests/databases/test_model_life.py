"""The life of a model: a second version is built, tried, compared, put in use, rolled back and removed.

After each step the view, every command that looks at results and a plain run are asked, and must agree.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

from infer_app.ask.page.reports import write_reports
from infer_app.base.errors import ModelError, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli import load_app
from infer_app.cli.model.version_commands import use
from infer_app.tables.choose_models import choose_artifacts
from tests.databases.conftest import ServerProject

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

YESTERDAY, EARLIER = (f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}" for days in (1, 6))
FIRST = (  # as that of `built_models`
    *("model", "build", "colors.ts", "--name", "colors", "--labels", "labels.txt"),
    *("--recipe", "stretch", "--size", "16", "--set", "mean=0,0,0", "--set", "std=1,1,1"),
)
SECOND = (*FIRST, "--set", "interpolation=bilinear")
DAY_FLAGS = ("--date", YESTERDAY, "--lookback", "0")


class Life:
    """A project and what all that can be asked says about its two days."""

    def __init__(self, project: ServerProject, capsys: pytest.CaptureFixture[str]) -> None:
        self.project, self.capsys = project, capsys
        self.config = project.folder / "infer.toml"

    def told(self, *arguments: str):
        """Return what a command prints with --json, in this process: each takes seconds to start."""
        self.capsys.readouterr()
        load_app()([*arguments, "--json", "--config", str(self.config)], standalone_mode=False)
        return json.loads(self.capsys.readouterr().out)

    def run(self, *more, exit_code=0):
        return self.project.infer_json("run", *DAY_FLAGS, *more, exit_code=exit_code)

    def check(self, in_use: str, days: dict[str, str], name: str = "colors") -> None:
        """Ask everything: `days` has the version that did each day."""
        view = self.project.rows(
            "SELECT image_id, model_id FROM infer_current_predictions WHERE model = 'colors' ORDER BY 1"
        )
        known = self.told("model", "list")["models"]
        assert [one["model_id"] for one in known if one["in_use"] and one["name"] == name] == [in_use]
        recorded = self.project.rows("SELECT id FROM infer_models WHERE in_use_since IS NOT NULL AND name = 'colors'")
        assert recorded == [(in_use,)]
        (chosen,) = choose_artifacts(load_settings(self.config, {"run": {"model": name}}))
        assert chosen.manifest.model_id == in_use
        status = {one["date"]: one for one in self.told("status", "--days", "10")["days"]}
        shown = []
        for day, version in days.items():
            assert (status[day]["model_id"], status[day]["state"]) == (version, "done")
            assert status[day]["in_use"] is (version == in_use)
            loaded = load_settings(self.config)
            (page,) = write_reports(loaded, [loaded.day(day)])
            report = next(one for one in page.report.models if one.model == name)
            assert (report.model_id, report.counts.predicted) == (version, status[day]["predicted"])
            verified = self.told("verify", "--date", day, "--model", name)
            assert [(one["model_id"], one["pending"]) for one in verified["models"]] == [(version, 0)]
            everything = self.told("verify", "--date", day)
            assert everything["balanced"] is True
            assert everything["models"][0]["model_id"] == version
            rejected = self.listed("rejected", day, name)
            assert {row["model_id"] for row in rejected} <= {version}
            assert len(rejected) == status[day]["rejected"]
            shown += self.predictions(day)
        assert sorted(shown) == view
        first = self.told("explain", "--image", "1", "--model", name)["models"][0]
        assert first["model_id"] == in_use or first["state"] == "pending"
        index = (self.project.folder / "reports" / "index.html").read_text()
        for day in days:
            assert f"{day}: " in index

    def listed(self, state, day, model):
        named = ("--model", model) if model else ()
        return self.told("list", "--state", state, "--date", day, *named)["images"]

    def predictions(self, day, model=None):
        """Return (image, version) of each prediction that is listed, which is one for an image."""
        listed = [(row["image_id"], row["model_id"]) for row in self.listed("predicted", day, model)]
        assert len({image for image, _ in listed}) == len(listed)
        return listed


@pytest.fixture
def life(project, built_models, capsys):
    """A project with a model of its own, what that was built from, and two days of three photos, one broken."""
    project.use_models(built_models)
    for name in ("colors.ts", "labels.txt"):
        (project.folder / name).write_bytes((built_models.parent / name).read_bytes())
    project.add_photos(3, EARLIER)
    for number in range(3, 7):
        photo = project.photos / f"{number:04}.jpg"
        photo.write_bytes((project.photos / "0001.jpg").read_bytes() if number < 6 else b"broken")
    project.add("photos", date=YESTERDAY)
    return Life(project, capsys)


def test_a_second_version_is_built_tried_used_rolled_back_and_removed(life):
    project = life.project
    assert life.run("--date", EARLIER)["predicted"] == 3
    first = life.run()["model_id"]
    life.check(first, {EARLIER: first, YESTERDAY: first})

    built = project.infer(*SECOND)
    second = next(path.name for path in (project.folder / "models" / "colors").iterdir() if path.name != first)
    assert f"the next run of colors still takes colors@{first[:8]}" in built
    assert built.splitlines()[-1] == f"use it:  infer model use colors@{second[:8]}"
    life.check(first, {EARLIER: first, YESTERDAY: first})
    assert life.run()["selected"] == 0

    before = project.rows("SELECT * FROM infer_current_predictions ORDER BY image_id")
    tried = life.run("--model", f"colors@{second[:8]}", "--limit", "2")
    assert (tried["model_id"], tried["predicted"], tried["older_pending"]) == (second, 2, 0)
    assert project.rows("SELECT * FROM infer_current_predictions ORDER BY image_id") == before
    life.check(first, {EARLIER: first, YESTERDAY: first})
    assert {model_id for _, model_id in life.predictions(YESTERDAY, f"colors@{second[:6]}")} == {second}
    pair = (f"colors@{first[:8]}", second)
    compared = life.told("compare", "--date", YESTERDAY, "--models", *pair)
    assert (compared["a"]["model_id"], compared["b"]["model_id"], compared["both"]) == (first, second, 2)

    used = life.told("model", "use", "colors")
    assert used == {"model": "colors", "model_id": second, "before": first}
    shown = {row[1] for row in project.rows("SELECT image_id, model_id FROM infer_current_predictions")}
    assert shown == {first, second}  # the two that were tried are those of the version in use
    assert life.run()["model_id"] == second
    life.check(second, {EARLIER: first, YESTERDAY: second})
    assert life.run()["older_pending"] == 0
    life.check(second, {EARLIER: first, YESTERDAY: second})

    rebuilt = project.infer(*FIRST)
    assert "is there already" in rebuilt
    assert f"the next run of colors still takes colors@{second[:8]}" in rebuilt
    life.check(second, {EARLIER: first, YESTERDAY: second})

    told = project.infer("model", "use", f"colors@{first[:4]}")
    assert told.splitlines() == [
        f"colors@{first[:8]} is in use now, before it was colors@{second[:8]}",
        f"to go back: infer model use colors@{second[:8]}",
        "what the next run predicts again: infer list",
    ]
    life.check(first, {EARLIER: first, YESTERDAY: first})
    assert life.run()["selected"] == 0
    life.check(first, {EARLIER: first, YESTERDAY: first})

    error = project.infer_json("model", "remove", f"colors@{first[:8]}", exit_code=2)
    assert error["hint"] == f"put another one in use first: infer model use colors@{second[:8]}"
    assert "2 versions" in project.infer_json("model", "remove", "colors", exit_code=2)["error"]
    removed = project.infer("model", "remove", f"colors@{second[:8]}")
    assert removed == f"removed colors@{second[:8]}; its 3 predictions stay in the database\n"
    life.check(first, {EARLIER: first, YESTERDAY: first})
    assert len(life.predictions(YESTERDAY, f"colors@{second[:8]}")) == 3
    gone = life.told("model", "list")["removed"]
    assert [(one["model_id"], one["predictions"]) for one in gone] == [(second, 3)]

    with pytest.raises(ModelError, match="no model"):
        use(f"colors@{second[:8]}", False, life.config)
    with pytest.raises(UsageError, match="at least 4"):
        use(f"colors@{second[:3]}", False, life.config)
