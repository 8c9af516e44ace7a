"""Killed at a transaction of a run of second networks: the next run ends it, row by row as if it had not been."""

import pytest

from tests.faults.conftest import on
from tests.faults.launch import POINTS
from tests.faults.project_run import ProjectRun
from tests.support.patches import NAMES, build_all, check_whole, draw, rows_of

pytestmark = pytest.mark.timeout(1800)
KILLED = -9


@pytest.fixture(scope="session")
def patch_models(tmp_path_factory):
    return build_all(tmp_path_factory.mktemp("patch-models"))


@pytest.fixture
def night(url, tmp_path, patch_models):
    """Eight pictures with three objects each, two of them broken."""
    night = ProjectRun(tmp_path / "night", url, patch_models)
    draw(tmp_path / "picture.png", ["red", "green", "blue"])
    picture = (tmp_path / "picture.png").read_bytes()
    night.add([picture] * 3 + [b"no photo", picture[:300]] + [picture] * 3)
    return night


@on("sqlite", "postgres")
@pytest.mark.parametrize("before", [(), ("cells",)], ids=["together", "after the detector"])
def test_killed_at_any_transaction_of_second_networks_a_day_ends_as_if_it_had_not(night, seeded, request, before):
    run(night, NAMES)
    undisturbed = rows_of(night)
    assert [len(rows) for rows in undisturbed.values()] == [18, 6 + 18, 18, 6]
    is_full, number, survived = request.config.option.full, 0, False
    while not survived:
        number += 1 if is_full else seeded.randrange(3, 15)
        night.reset()
        if before:
            run(night, before)
        point = seeded.choice(POINTS)
        ended = night.run(*flags(NAMES), is_stub=False, point=point, number=number)
        survived = ended.exit_code == 0
        assert survived or ended.exit_code == KILLED, ended.err
        check_whole(rows_of(night))
        night.check(ended, model_id=undisturbed["infer_objects"][0][1])
        run(night, NAMES)
        assert rows_of(night) == undisturbed, f"{point} of transaction {number}"
    assert number > 10


def run(night, names):
    ended = night.run(*flags(names), is_stub=False)
    assert ended.exit_code == 0, ended.err


def flags(names):
    return ("--max-rejected", "100%", *(word for name in names for word in ("--model", name)))
