"""Killed at the first transaction, the second and so on, until a run survives: before it, in it, and after it."""

import pytest

from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.project_run import photos

KILLED = -9
quick, full = (), pytest.mark.full


@on("sqlite")
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=quick if point == "before commit" else full) for point in POINTS]
)
def test_killed_at_every_transaction_a_day_ends_as_if_it_had_not(night, point):
    kill_at_every_transaction(night, point)


def kill_at_every_transaction(night, point):
    night.add(photos(6))
    number, exit_code = 0, KILLED
    while exit_code == KILLED:
        number += 1
        night.reset()
        ended = night.run(point=point, number=number)
        exit_code = ended.exit_code
        night.check(ended)
        night.finish()
    assert exit_code == 0, ended.err
    # It survives neither the two of its opening nor its start, two chunks, their broken files, its closing, its notices
    # of what happened and of what holds.
    assert number == 2 + 1 + 2 + 1 + 1 + 2 + 1


@pytest.mark.always
@on("sqlite")
def test_killed_at_its_first_chunk_every_night_a_day_is_done_in_the_end(night):
    """Each run does one chunk and dies: what was done is never done again. Broken files wait for a run that ends."""
    night.add(photos(10))
    done = [0]
    while done[-1] < 8:
        is_first = len(done) == 1  # it records the source besides
        night.check(night.run(point="after commit", number=5 if is_first else 4))
        done.append(len(night.results()))
        assert done[-1] > done[-2]
    assert night.finish().answer["selected"] == 2
