import pytest

from infer_app.telemetry.tally import Commit, merge_pairs, steady_rate


def commits(**times):
    """commits(a=[1, 2]): worker a committed ten images after one second and ten after two; in order of time."""
    found = [Commit(at, ord(worker), 10) for worker, moments in times.items() for at in moments]
    return sorted(found, key=lambda commit: commit.at)


def every(seconds, start, end):
    return [start + i * seconds for i in range(int((end - start) / seconds) + 1)]


def test_what_began_before_or_ended_after_counts_in_part():
    assert steady_rate(commits(a=[1.0, 2.0], b=[1.1, 2.1]), 2) == pytest.approx(20.0)


@pytest.mark.parametrize("lag", [0.0, 0.3, 0.9, 4.2])
def test_workers_that_start_one_after_another_add_up(lag):
    assert steady_rate(commits(a=every(1, 3, 20), b=every(1, 3 + lag, 20 + lag)), 2) == pytest.approx(20.0)


def test_one_worker_alone_with_a_slow_database_is_not_taken_for_two():
    """The database takes a chunk a second, at first all of them from the one worker that has started."""
    alone, both = every(1, 0, 9), every(2, 10, 30)
    assert steady_rate(commits(a=alone + both, b=[at + 1 for at in both]), 2) == pytest.approx(10.0)


def test_the_idle_end_does_not_count():
    assert steady_rate(commits(a=every(1, 0, 20), b=[*every(1, 0, 20), 21, 22, 90]), 2) == pytest.approx(20.0)


def test_a_worker_that_was_replaced_is_not_two():
    rate = steady_rate(commits(a=every(1, 0, 10), b=every(1, 0, 30), c=every(1, 13, 30)), 2)
    assert rate == pytest.approx((10 + 30 + 17) * 10 / 30)


@pytest.mark.parametrize("few", [{}, {"a": [1]}, {"a": [1], "b": [2]}, {"a": [1, 2], "b": [1.5]}], ids=str)
def test_too_few_chunks_have_no_rate(few):
    assert steady_rate(commits(**few), 2) is None


def test_fewer_workers_than_there_might_be_have_the_rate_they_reach():
    assert steady_rate(commits(a=every(1, 0, 5)), 4) == pytest.approx(10.0)


@pytest.mark.parametrize("times", [0, 1, 2, 3])
def test_merging_chunks_leaves_the_rate_and_the_images(times):
    whole = commits(a=every(1, 0, 80), b=every(1, 0.4, 80.4), c=[3.0])
    kept = whole
    for _ in range(times):
        kept = merge_pairs(kept)
    assert sum(one.num_images for one in kept) == sum(one.num_images for one in whole)
    assert len(kept) <= len(whole) / 2**times + 4
    assert steady_rate([one for one in kept if one.worker != ord("c")], 2) == pytest.approx(20.0)
