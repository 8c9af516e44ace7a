"""`infer model list`, `use` and `remove` over two versions, and what a build says about the next run."""

import json
from datetime import UTC, datetime

import pytest

from infer_app.base.errors import DatabaseUnavailable, DayHeld, ModelError, UsageError
from infer_app.base.settings.load import load_settings
from infer_app.cli.model.model import find_model
from infer_app.cli.model.run_after_build import RunAfterBuild
from infer_app.cli.model.version_commands import list_models, put_in_use, remove, use
from infer_app.tables.choose_models import choose_artifacts
from infer_app.tables.results.runs import RunModel, RunStore
from tests.conftest import DAY
from tests.support.day_rows import add_model  # noqa: F401
from tests.support.networks import built
from tests.support.results import commit, predicted


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """The older and the newer version of `colours` in ./models."""
    monkeypatch.chdir(tmp_path)
    return [built(tmp_path), built(tmp_path, recipe="stretch")]


@pytest.fixture
def in_project(database, tmp_path):
    """The same with an infer.toml and a database; in_project("…") sets its text."""
    (tmp_path / "infer.toml").touch()
    return (tmp_path / "infer.toml").write_text


def run(database, artifact, **changes):
    manifest = artifact.manifest
    return RunStore(database).open_run(DAY, RunModel(manifest.name, manifest.model_id, "v", {}, **changes))


def short(artifact):
    return f"colours@{artifact.manifest.model_id[:8]}"


def listed(capsys):
    capsys.readouterr()
    list_models(True, None)
    return json.loads(capsys.readouterr().out)["models"]


def said_of(artifact):
    return list(RunAfterBuild.of(artifact, None).lines())


def test_a_new_name_joins_a_plain_run_until_one_has_run_or_the_settings_name_the_models(
    versions, in_project, database, tmp_path
):
    put_in_use(versions[0], None)
    trial = built(tmp_path, name="trial")
    joins, keep_out, takes = said_of(trial)
    assert joins == "a plain `infer run`, as by cron, now runs trial too, beside colours"
    assert takes == "the next run of trial takes this version"
    in_project(keep_out.partition("set in infer.toml: ")[2].replace("] ", "]\n", 1))
    assert [one.manifest.name for one in choose_artifacts(load_settings(None))] == ["colours"]
    assert said_of(trial)[0].startswith("the settings name colours: a plain `infer run` does not run trial")
    in_project("")
    run(database, trial)
    assert said_of(trial) == [takes]


def test_no_run_takes_one_of_several_versions_before_one_is_put_in_use(versions, in_project):
    """As where `models/` was copied to a new database."""
    older, newer = versions
    assert said_of(newer) == [
        "colours has several versions and none is in use: no run takes one until you choose",
        f"put this one in use: infer model use {short(newer)}",
    ]
    with pytest.raises(ModelError, match="colours has 2 versions, and none is in use") as caught:
        choose_artifacts(load_settings(None))
    assert (caught.value.exit_code, "`infer model use colours` takes the newest" in caught.value.hint) == (12, True)
    in_project(f'[run]\nmodel = "{short(older)}"')
    assert [one.folder for one in choose_artifacts(load_settings(None))] == [older.folder]
    in_project("")
    use(short(older), False, None)
    assert [one.folder for one in choose_artifacts(load_settings(None))] == [older.folder]


def test_without_a_project_the_newest_is_meant_and_the_last_is_not_removed(versions, capsys):
    older, newer = versions
    assert find_model("colours", None).folder == newer.folder
    for act in (lambda: use("colours", False, None), lambda: put_in_use(newer, None)):
        with pytest.raises(UsageError, match="no infer.toml"):
            act()
    remove(short(older), False, False, None)
    assert not older.folder.exists()
    assert said_of(newer) == ["the next run of colours takes this version"]
    list_models(False, None)
    assert "from its first run on" in capsys.readouterr().out
    with pytest.raises(UsageError, match="is in use and the only version"):
        remove(short(newer), False, False, None)


@pytest.mark.usefixtures("in_project")
def test_the_list_has_the_newest_first_and_which_is_in_use_since_when(versions, database, capsys):
    older, newer = versions
    ids = [newer.manifest.model_id, older.manifest.model_id]
    assert [(one["model_id"], one["in_use"]) for one in listed(capsys)] == [(one, False) for one in ids]
    run(database, older)
    of_newer, of_older = listed(capsys)
    assert (of_newer["in_use"], of_older["in_use"]) == (False, True)
    since = datetime.fromisoformat(of_older["in_use_since"])
    assert abs((datetime.now(UTC) - since).total_seconds()) < 600
    use("colours", False, None)
    list_models(False, None)
    lines = capsys.readouterr().out.splitlines()
    for model_id, said in zip(ids, ("since 20", "until 20"), strict=True):
        assert said in next(line for line in lines if model_id in line)


@pytest.mark.usefixtures("in_project")
def test_predictions_are_counted_of_the_kind_of_images_that_the_project_lists(versions, database, register, capsys):
    """As where photos of a table are watched as files now; `infer model remove` says of all that they stay."""
    older, newer = versions
    put_in_use(newer, None)
    register("/p/1.jpg", "/p/2.jpg")
    commit(database, predicted("1", "2"), model_id=older.manifest.model_id)
    commit(database, predicted("3"), model_id=older.manifest.model_id, registered=False)
    run(database, older, may_be_put_in_use=False)
    assert [one["predictions"] for one in listed(capsys)] == [0, 2]


def test_what_becomes_of_second_networks_is_told_where_their_detector_changes(versions, in_project, add_model, capsys):  # noqa: F811
    in_project("")
    add_model("species", "5" * 16, datetime(2026, 11, 1), manifest={"crop": {"of": "colours"}})
    older, newer = versions
    for version, num_lines in ((older, 0), (newer, 1), (newer, 0)):
        use(short(version), False, None)
        told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("of species what is of ")]
        assert len(told) == num_lines
        assert all(short(older) in line for line in told)


@pytest.mark.usefixtures("in_project")
def test_a_version_that_is_used_already_stays_and_a_damaged_one_is_not_put_in_use(versions, capsys):
    older, newer = versions
    use("colours", False, None)
    use(short(newer), False, None)
    assert "is in use already, since 20" in capsys.readouterr().out
    (older.folder / "labels.txt").write_text("other\n")
    with pytest.raises(ModelError, match=r"labels\.txt: changed since it was built"):
        use(short(older), False, None)
    assert find_model("colours", None).folder == newer.folder


@pytest.mark.usefixtures("in_project")
def test_a_version_that_runs_is_not_removed_and_one_that_is_only_tried_is_not_put_in_use(versions, database):
    older, newer = versions
    put_in_use(newer, None)
    run_id = run(database, older, may_be_put_in_use=False)
    assert said_of(older)[0].endswith("the new version is not in use yet")
    with pytest.raises(DayHeld, match=f"run {run_id} of .* is active"):
        remove(short(older), False, False, None)
    assert older.folder.exists()


def test_what_the_settings_name_is_told(versions, in_project, capsys):
    older, newer = versions
    in_project(f'[run]\nmodel = "{short(older)}"\n')
    use("colours", False, None)
    pinned = f"the settings pin {short(older)}: a plain `infer run` runs that, whatever version is in use"
    assert capsys.readouterr().out.splitlines()[-1] == pinned
    (chosen,) = choose_artifacts(load_settings(None))
    assert chosen.folder == older.folder
    in_project('[run]\nmodel = "other"\n')
    assert said_of(newer)[0].startswith("the settings name other: a plain `infer run` does not run colours")


@pytest.mark.parametrize("url", ["sqlite:///not/there.db", "sqlite:///infer.toml"])
def test_a_database_that_is_away_or_none_hides_what_is_in_use_and_changes_nothing(versions, in_project, capsys, url):
    _, newer = versions
    in_project(f'[database]\nurl = "{url}"\n[source]\ntable = "photos"\n')
    assert find_model("colours", None).folder == newer.folder
    assert [one["in_use"] for one in listed(capsys)] == [False, False]
    for act in (lambda: use("colours", False, None), lambda: remove(short(newer), False, False, None)):
        with pytest.raises(DatabaseUnavailable):
            act()
    assert newer.folder.exists()
    for version in versions if url.endswith("toml") else ():  # which is there, and no database
        (said,) = said_of(version)
        assert said.startswith("the next run of colours takes this version unless another one is in use")
        assert RunAfterBuild.of(version, None).takes_it is None
