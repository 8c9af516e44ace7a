"""A day that was begun in one precision is never finished in another: two machines over one database.

Each machine is an installation of its own, whose CPU says by a stand-in whether it computes bf16. The program selects,
refuses and writes as ever; only what the network computes is a stub.
"""

import os
import signal

import pytest

from infer_app.artifact.artifact import record_variant
from infer_app.artifact.models_folder import list_artifacts
from infer_app.base.settings.load import load_settings
from infer_app.tables.engine.connect import Database
from infer_app.tables.known_database import join
from tests.faults.conftest import on
from tests.faults.project_run import DATE, ProjectRun, slow_photos
from tests.support.judged import JUDGED

TORCHSCRIPT, BF16, INT8 = "cpu-torchscript", "cpu-openvino-bf16", "cpu-openvino-int8"
FULL = {TORCHSCRIPT, "cpu-openvino-fp32"}
PHOTOS = slow_photos(60)
NEXT = "2026-11-21"


class Machine(ProjectRun):
    """An installation; `faults` say which machine its runs are on."""

    def __init__(self, folder, url, models, **faults):
        self.faults = faults
        super().__init__(folder, url, models)
        for artifact in list_artifacts(folder / "models"):  # a CPU without bf16 has built none
            record_variant(record_variant(artifact, BF16, JUDGED, {}), INT8, JUDGED, {})

    def refused(self, *more, **given):
        """The error of a run that ends with exit code 12."""
        ended = self.run(*more, **given)
        assert ended.exit_code == 12, ended.err
        return ended.answer

    def variants(self, date=DATE):
        """The variants of a day's predictions, with their numbers."""
        ids = ", ".join(str(number) for number, _ in self.images(date))
        return dict(
            self.rows(f"SELECT variant, count(*) FROM infer_predictions WHERE picture IN ({ids}) GROUP BY variant")
        )

    def kill_in_the_middle(self, *more):
        """Number of images that are done then."""
        run = self.start(*more)
        self.wait_for_results(run, 10)
        os.killpg(run.pid, signal.SIGKILL)
        self.wait(run)
        (done,) = self.variants().values()
        assert 10 <= done < len(PHOTOS)
        return done


@pytest.fixture
def with_bf16(tmp_path, url, models):
    machine = Machine(tmp_path / "with", url, models, host="with", lease_s=2, bf16=True)
    machine.add(PHOTOS)
    return machine


@pytest.fixture
def without_bf16(tmp_path, url, models, with_bf16):
    machine = Machine(tmp_path / "without", url, models, host="without", lease_s=2, bf16=False)
    machine.photos = with_bf16.photos
    machine.configure(url)
    with Database(url) as database:
        join(load_settings(machine.folder / "infer.toml"), database)
    return machine


@on("sqlite", "postgres")
def test_a_machine_without_bf16_does_not_finish_a_day_that_was_begun_in_half(with_bf16, without_bf16):
    done = with_bf16.kill_in_the_middle("--precision", "half")
    error = without_bf16.refused("--precision", "half")
    assert "this CPU does not compute bf16" in error["error"]
    assert error["hint"] == "run it on a machine that can; or take --precision full for days not begun yet"
    for asked in ((), ("--precision", "full"), ("--precision", "int8")):
        error = without_bf16.refused("--wait", *asked)
        assert "was begun in half precision, which it keeps" in error["error"]
        assert "this CPU does not compute bf16" in error["error"]
        assert BF16 in error["hint"]
    assert with_bf16.variants() == {BF16: done}
    without_bf16.add(PHOTOS[:4], date=NEXT)  # its own days it does
    ended = without_bf16.run("--lookback", "1", date=NEXT)
    assert ended.exit_code == 12, ended.err
    assert ended.answer["predicted"] == 4
    assert without_bf16.variants(NEXT).keys() <= FULL
    assert with_bf16.run().exit_code == 0
    assert with_bf16.variants() == {BF16: len(PHOTOS)}
    with_bf16.check()


@on("postgres")
@pytest.mark.parametrize("killed", [False, True], ids=["ends", "killed"])
def test_of_two_machines_at_once_the_second_continues_in_the_precision_of_the_first(with_bf16, without_bf16, killed):
    """Both others wait for the day before the first has a prediction: what a day is begun in is known to its holder."""
    for machine in (with_bf16, without_bf16):
        # One host: a run that is frozen keeps its day, a dead one loses it.
        machine.faults = {"bf16": machine is with_bf16}
    first = with_bf16.start("--precision", "half", "--limit", "30")
    while not with_bf16.rows("SELECT id FROM infer_runs") and first.poll() is None:
        pass
    os.killpg(first.pid, signal.SIGSTOP)
    others = [machine.start("--wait", "--precision", "full") for machine in (with_bf16, without_bf16)]
    for other in others:
        assert any("waiting: " in line for line in other.stderr)
    os.killpg(first.pid, signal.SIGCONT)
    with_bf16.wait_for_results(first, 4)
    if killed:
        os.killpg(first.pid, signal.SIGKILL)
    with_bf16.wait(first)
    second, third = map(with_bf16.wait, others)
    assert second.exit_code == 0, second.err
    assert third.exit_code in (0, 12), third.err  # 0: the second was faster, nothing is left
    assert with_bf16.variants() == {BF16: len(PHOTOS)}
