"""A server that goes away, for a moment or for good, and one that is slow: rows 15, 20 and 30 of the fault contract."""

import os
import signal
import time

import psutil
import pytest
from sqlalchemy import make_url

from tests.conftest import SERVERS
from tests.databases.servers import Server
from tests.faults.conftest import on
from tests.faults.project_run import DATE, photos, slow_photos
from tests.faults.proxy import Proxy

SLOW = slow_photos(60)  # two seconds of work for two workers


@pytest.fixture
def stoppable(server):
    if server is None:
        pytest.skip("a server of one's own is needed to stop it")
    return server


STOPPED = pytest.param(Server.stopped, marks=pytest.mark.always)
each_absence = pytest.mark.parametrize("absence", [STOPPED, Server.frozen])


@on("postgres", "mariadb", of=SERVERS)
@each_absence
@pytest.mark.timeout(600)
def test_a_server_that_is_away_for_a_while_costs_nothing_but_time(night, stoppable, seeded, absence, request):
    night.add(SLOW)
    for _ in range(12 if request.config.option.full else 1):
        night.reset()
        run = night.start(silence_s=2)
        night.wait_for_results(run, seeded.randint(1, 40))
        time.sleep(seeded.uniform(0, 0.2))
        with absence(stoppable):
            time.sleep(seeded.uniform(2, 6))
            assert run.poll() is None
        ended = night.wait(run)
        night.check_end(ended)


@on("postgres", "mariadb", of=SERVERS)
def test_a_server_that_is_away_when_a_night_begins_is_waited_for(night, stoppable):
    night.add(photos(2))
    night.finish()
    night.add(photos(5))
    with stoppable.stopped():
        run = night.start()
        time.sleep(3)
        assert run.poll() is None
    ended = night.wait(run)
    assert ended.exit_code == 0, ended.err
    assert "can't be reached: trying again for 300 s" in ended.err
    night.check(ended)


@on("postgres", "mariadb", of=SERVERS)
@each_absence
def test_a_server_that_stays_away_ends_the_run_with_10_and_what_was_committed_is_true(night, stoppable, absence):
    night.configure(make_url(night.url).update_query_dict({"connect_timeout": "2"}).render_as_string(False))
    night.add(SLOW)
    run = night.start(outage_s=2, silence_s=1)
    night.wait_for_results(run, 8)
    with absence(stoppable):
        ended = night.wait(run, timeout_s=30)
    assert (ended.exit_code, ended.answer["exit_code"]) == (10, 10), ended.err
    assert "Traceback" not in ended.err
    night.check()
    assert set(night.results()) < set(night.expected())
    night.finish()


@on(of=SERVERS)
def test_sigterm_while_the_server_is_away_ends_the_run_in_time(night, stoppable):
    night.add(SLOW)
    run = night.start()
    night.wait_for_results(run, 8)
    with stoppable.stopped():
        time.sleep(1)
        os.kill(run.pid, signal.SIGTERM)
        start = time.monotonic()
        ended = night.wait(run)
        assert time.monotonic() - start < 25
    assert ended.exit_code == 143, ended.err
    night.check()
    night.finish()


@on("postgres", of=SERVERS)
@pytest.mark.timeout(600)
def test_a_commit_whose_answer_is_lost_is_done_once(night, kind):
    """The first to the last of a run: two of its opening, four chunks, its closing.

    MariaDB's driver commits as it connects, to read which versions are in use and for the run; a server that was never
    reached is not waited for.
    """
    night.add(photos(14))
    for number in range(3 if kind == "mariadb" else 1, 8):
        night.reset()
        with Proxy(night.url, cut_at=number) as proxy:
            night.configure(proxy.url)
            ended = night.run()
        night.configure(night.url)
        assert proxy.num_commits >= number
        assert ended.exit_code == 0, ended.err
        night.check(ended)
        night.finish()


@on("postgres", of=SERVERS)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("flags", "date"), [(("--limit", "4"), DATE), ((), "2026-11-25")], ids=["limit", "empty day"])
def test_a_lost_connection_fails_no_run_that_has_taken_its_day(night, flags, date, seeded, request):
    """In each of its reads in turn: after the last commit it asks how much is left, and for the nearest day.

    Without --full, in a third of them.
    """
    night.add(photos(14))
    number, is_lost = 0, True
    while is_lost:
        number += 1 if request.config.option.full else seeded.randint(1, 5)
        night.reset()
        ended = night.run(*flags, date=date, lost_read=number)
        is_lost = f"lost read {number}\n" in ended.err
        states = night.rows("SELECT state FROM infer_runs")
        assert (ended.exit_code, states) in [(0, [("done",)]), (10, [])], f"read {number}: {ended.err}"
    assert states


@on("sqlite", of=["sqlite"])
@pytest.mark.timeout(100)
def test_a_run_whose_row_can_not_be_closed_says_so_in_it(night):
    night.add(photos(6))
    night.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE OF state ON infer_runs WHEN new.state = 'done'"
        " BEGIN SELECT RAISE(ABORT, 'not done at all'); END"
    )
    ended = night.run()
    assert ended.exit_code == 1, ended.err
    ((state, exit_code, error),) = night.rows("SELECT state, exit_code, error FROM infer_runs")
    assert (state, exit_code) == ("failed", 1)
    assert "not done at all" in error
    assert night.results() == night.expected()


@on(of=SERVERS)
def test_a_slow_database_costs_no_memory(night):
    """500 ms for each commit of four images that workers make in 8 ms."""
    night.add(photos(240))
    with Proxy(night.url, commit_s=0.5) as proxy:
        night.configure(proxy.url)
        run = night.start()
        night.wait_for_results(run, 60)
        early = memory_of(run)
        night.wait_for_results(run, 200)
        late = memory_of(run)
        ended = night.wait(run)
    night.check_end(ended)
    assert late - early < 4 << 20


def memory_of(run):
    parent = psutil.Process(run.pid)
    return sum(process.memory_info().rss for process in (parent, *parent.children(recursive=True)))
