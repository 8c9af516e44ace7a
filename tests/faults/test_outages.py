"""A server that goes away, for a moment or for good, and one that is slow: rows 15, 20 and 30 of the fault contract."""

import os
import signal
import time
from contextlib import contextmanager, suppress

import psutil
import pytest
from sqlalchemy import make_url

from tests.faults.conftest import on
from tests.faults.project_run import DATE, photos
from tests.faults.proxy import Proxy
from tests.faults.stub import GOOD

SLOW = [GOOD + f"slow {number}".encode() for number in range(60)]  # two seconds of work for two workers
TIMES_FULL = 12


@pytest.fixture
def stoppable(server):
    if server is None:
        pytest.skip("a server of one's own is needed to stop it")
    return server


@pytest.fixture
def times(request):
    return TIMES_FULL if request.config.option.full else 1


def stop(server):
    """PostgreSQL: as `pg_ctl stop -m immediate`; MariaDB has no such thing."""
    server.end(signal.SIGQUIT if "postgres" in server.url else signal.SIGKILL)


@pytest.mark.always
@on("postgres")
@pytest.mark.timeout(600)
def test_a_server_that_is_stopped_and_started_again_costs_nothing_but_time(night, stoppable, seeded, times):
    night.add(SLOW)
    for _ in range(times):
        night.reset()
        run = night.start()
        night.wait_for_results(run, seeded.randint(1, 40))
        time.sleep(seeded.uniform(0, 0.2))
        stop(stoppable)
        time.sleep(seeded.uniform(0, 4))
        stoppable.start()
        ended = night.wait(run)
        assert ended.exit_code == 0, ended.err
        assert "Traceback" not in ended.err
        night.check(ended)
        assert night.results() == night.expected()


@on("postgres")
def test_a_server_that_stays_away_ends_the_run_with_10_and_what_was_committed_is_true(night, stoppable):
    night.add(SLOW)
    run = night.start(outage_s=2)
    night.wait_for_results(run, 8)
    stop(stoppable)
    ended = night.wait(run, timeout_s=30)
    assert (ended.exit_code, ended.answer["exit_code"]) == (10, 10), ended.err
    assert "Traceback" not in ended.err
    stoppable.start()
    night.check()
    assert set(night.results()) < set(night.expected())
    night.finish()


@pytest.fixture
def frozen(stoppable):
    """`with frozen():` no process of the server runs."""

    @contextmanager
    def freeze():
        main = psutil.Process(stoppable.process.pid)
        processes = [main, *main.children(recursive=True)]
        try:
            for process in processes:
                process.suspend()
            yield
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    return freeze


@on("postgres", "mariadb")
def test_a_server_that_freezes_and_goes_on_costs_nothing_but_time(night, kind, frozen):
    if kind == "sqlite":
        pytest.skip("it has no server")
    night.add(SLOW)
    run = night.start(silence_s=2)
    night.wait_for_results(run, 8)
    with frozen():
        time.sleep(6)
        assert run.poll() is None
    ended = night.wait(run)
    assert ended.exit_code == 0, ended.err
    night.check(ended)
    assert night.results() == night.expected()


@on("postgres", "mariadb")
def test_a_server_that_stays_frozen_ends_the_run_with_10(night, kind, frozen):
    if kind == "sqlite":
        pytest.skip("it has no server")
    night.configure(make_url(night.url).update_query_dict({"connect_timeout": "2"}).render_as_string(False))
    night.add(SLOW)
    run = night.start(outage_s=2, silence_s=1)
    night.wait_for_results(run, 8)
    with frozen():
        ended = night.wait(run, timeout_s=30)
    assert (ended.exit_code, ended.answer["exit_code"]) == (10, 10), ended.err
    assert "Traceback" not in ended.err
    night.check()
    assert set(night.results()) < set(night.expected())
    night.finish()


@on()
def test_sigterm_while_the_server_is_away_ends_the_run_in_time(night, stoppable):
    night.add(SLOW)
    run = night.start()
    night.wait_for_results(run, 8)
    stop(stoppable)
    time.sleep(1)
    os.kill(run.pid, signal.SIGTERM)
    start = time.monotonic()
    ended = night.wait(run)
    assert time.monotonic() - start < 25
    assert ended.exit_code == 143, ended.err
    stoppable.start()
    night.check()
    night.finish()


@on("postgres")
@pytest.mark.timeout(600)
def test_a_commit_whose_answer_is_lost_is_done_once(night, kind):
    """The first to the last of a run: two of its opening, four chunks, its closing.

    MariaDB's driver commits as it connects; and whoever was never reached is not waited for.
    """
    night.add(photos(14))
    for number in range(2 if kind == "mariadb" else 1, 8):
        night.reset()
        with Proxy(night.url, cut_at=number) as proxy:
            night.configure(proxy.url)
            ended = night.run()
        night.configure(night.url)
        assert proxy.num_commits >= number
        assert ended.exit_code == 0, ended.err
        night.check(ended)
        night.finish()


@on("postgres")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("flags", "date"), [(("--limit", "4"), DATE), ((), "2026-11-25")], ids=["limit", "empty day"])
def test_a_lost_connection_fails_no_run_that_has_taken_its_day(night, kind, flags, date):
    """In each of its reads in turn: after the last commit it asks how much is left, and for the nearest day."""
    if kind == "sqlite":
        pytest.skip("no connection can be lost")
    night.add(photos(14))
    number, is_lost = 0, True
    while is_lost:
        number += 1
        night.reset()
        ended = night.run(*flags, date=date, lost_read=number)
        is_lost = f"lost read {number}\n" in ended.err
        states = night.rows("SELECT state FROM infer_runs")
        assert (ended.exit_code, states) in [(0, [("done",)]), (10, [])], f"read {number}: {ended.err}"
    assert states


@on("sqlite")
@pytest.mark.timeout(100)
def test_a_run_whose_row_can_not_be_closed_says_so_in_it(night, kind):
    if kind != "sqlite":
        pytest.skip("SQLite's triggers")
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


@on()
@pytest.mark.timeout(100)
def test_a_commit_whose_answer_is_lost_is_counted_once(night):
    """Of a run that dies before it writes its true counts at its end."""
    night.add(photos(16))  # four chunks of four, in whatever order they end
    with Proxy(night.url, cut_at=3) as proxy:
        night.configure(proxy.url)
        night.run(point="before write", number=7)
    assert len(night.results()) == 12
    assert night.rows("SELECT selected FROM infer_runs") == [(12,)]


@on()
@pytest.mark.timeout(600)
def test_connections_that_are_cut_at_random_cost_nothing_but_time(night, seeded):
    night.add(SLOW)
    with Proxy(night.url) as proxy:
        night.configure(proxy.url)
        for _ in range(TIMES_FULL):
            night.reset()
            run = night.start()
            night.wait_for_results(run, 1)
            for _ in range(5):
                time.sleep(seeded.uniform(0, 0.5))
                proxy.cut()
            ended = night.wait(run)
            assert ended.exit_code == 0, ended.err
            night.check(ended)
            assert night.results() == night.expected()


@on()
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
    assert ended.exit_code == 0, ended.err
    night.check(ended)
    assert night.results() == night.expected()
    assert late - early < 4 << 20


def memory_of(run):
    parent = psutil.Process(run.pid)
    return sum(process.memory_info().rss for process in (parent, *parent.children(recursive=True)))
