"""A cluster of two nodes on one machine and a day in PostgreSQL: actors, a node and the driver are killed meanwhile."""

import pytest

from tests.faults.project_run import photos
from tests.faults.stub import GOOD
from tests.support.ray_clusters import nodes_of

pytestmark = pytest.mark.ray


@pytest.fixture(scope="session", params=["postgres"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def two_nodes():
    """Each with one CPU, so that each has one actor with one worker."""
    with nodes_of(1, 1) as nodes:
        yield nodes


def on_ray(cluster, *more):
    return ("--executor", "ray", "--ray-address", cluster.address, "--workers", "1", *more)


def slow(contents):
    return [content.replace(GOOD, GOOD + b"slow ") for content in contents]


def test_two_nodes_give_what_one_machine_gives_and_both_worked(two_nodes, night, seeded):
    night.add(slow(photos(200, seed=seeded.randrange(10**6))))
    ended = night.run(*on_ray(two_nodes))
    night.check_end(ended)
    assert sum(node["images"] for node in ended.answer["nodes"].values()) == 200
    assert len(ended.answer["nodes"]) == 2


def test_a_node_that_is_killed(two_nodes, night, seeded):
    night.add(slow(photos(300, seed=seeded.randrange(10**6))))
    run = night.start(*on_ray(two_nodes))
    night.wait_for_results(run, 60)
    two_nodes.kill_last()
    ended = night.wait(run, timeout_s=300)
    two_nodes.replace_last()
    night.check_end(ended)


@pytest.mark.full
def test_an_image_whose_actor_dies_each_time_is_found_and_rejected(two_nodes, night, seeded):
    """As the memory monitor of a node would kill it: three times with its chunk, then five times alone."""
    contents = photos(24, seed=seeded.randrange(10**6))
    contents[10] = GOOD + b"ends its supervisor"
    night.add(contents)
    ended = night.wait(night.start(*on_ray(two_nodes)), timeout_s=500)
    assert ended.exit_code == 0, ended.err
    assert ended.answer["reasons"] == {"empty": 1, "out_of_memory": 1, "unsupported_format": 1}
    assert night.rows("SELECT picture FROM infer_rejections WHERE reason = 'out_of_memory'") == [(11,)]
    assert [row for row in night.results() if row[0] != "11"] == [row for row in night.expected() if row[0] != "11"]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True, scope="session")
def test_sqlite_is_refused_where_there_are_two_nodes(two_nodes, night):
    night.add(photos(3))
    ended = night.run(*on_ray(two_nodes))
    assert ended.exit_code == 2, ended.err
    assert ended.answer["error"].startswith("SQLite together with a Ray cluster of 2 nodes")
    assert night.rows("SELECT count(*) FROM infer_runs") == [(0,)]
