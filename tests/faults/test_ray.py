"""A cluster of two nodes on one machine and a day in PostgreSQL: actors, a node and the driver are killed meanwhile."""

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests.faults.night import REPOSITORY, photos
from tests.faults.stub import GOOD

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
ACTOR = "ray::NodeActor"


@pytest.fixture(scope="session", params=["postgres"])
def kind(request):
    return request.param


class TwoNodes:
    """Each with one CPU, so that each has one actor with one worker."""

    def __init__(self, cluster):
        self.address = cluster.address
        self.cluster = cluster
        self.second = cluster.add_node(num_cpus=1)

    def actors(self):
        """Processes of actors that live, which Ray names by what they do; one that starts is in its __init__."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                name = "".join(process.cmdline()[:1])
                if name.startswith(ACTOR) and "__init__" not in name:
                    found.append(process)
        return found

    def kill_second(self):
        """Its raylet by SIGKILL, as a machine that is switched off."""
        (info,) = self.second.all_processes["raylet"]
        os.kill(info.process.pid, signal.SIGKILL)

    def replace_second(self):
        self.cluster.remove_node(self.second)
        self.second = self.cluster.add_node(num_cpus=1)


@pytest.fixture(scope="module")
def two_nodes():
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        try:
            yield TwoNodes(cluster)
        finally:
            cluster.shutdown()


@contextmanager
def every(seconds, do):
    """In a thread, until the end of the block."""
    ended = threading.Event()

    def again():
        while not ended.wait(seconds):
            do()

    thread = threading.Thread(target=again)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def on_ray(cluster, *more):
    return ("--executor", "ray", "--ray-address", cluster.address, "--workers", "1", *more)


def slow(contents):
    return [content.replace(GOOD, GOOD + b"slow ") for content in contents]


def test_two_nodes_give_what_one_machine_gives_and_both_worked(two_nodes, night, seeded):
    night.add(slow(photos(200, seed=seeded.randrange(10**6))))
    ended = night.run(*on_ray(two_nodes))
    assert ended.exit_code == 0, ended.err
    assert night.results() == night.expected()
    assert sum(node["images"] for node in ended.answer["nodes"].values()) == 200
    assert len(ended.answer["nodes"]) == 2
    night.check(ended)


def test_actors_that_are_killed_every_second(two_nodes, night, seeded):
    night.add(slow(photos(300, seed=seeded.randrange(10**6))))
    killed = []

    def kill_one():
        actors = two_nodes.actors()
        if actors:
            with suppress(psutil.Error):
                actor = seeded.choice(actors)
                actor.kill()
                killed.append(actor.pid)

    with every(1.0, kill_one):
        ended = night.wait(night.start(*on_ray(two_nodes)), timeout_s=400)
    print(f"{len(killed)} actors were killed")
    assert ended.exit_code == 0, ended.err
    assert len(killed) > 3
    assert night.results() == night.expected()
    night.check(ended)


def test_a_node_that_is_killed(two_nodes, night, seeded):
    night.add(slow(photos(300, seed=seeded.randrange(10**6))))
    run = night.start(*on_ray(two_nodes))
    night.wait_for_results(run, 60)
    two_nodes.kill_second()
    ended = night.wait(run, timeout_s=300)
    two_nodes.replace_second()
    assert ended.exit_code == 0, ended.err
    assert night.results() == night.expected()
    night.check(ended)


def test_a_driver_that_is_killed_and_started_again(two_nodes, night, seeded):
    night.add(slow(photos(200, seed=seeded.randrange(10**6))))
    run = night.start(*on_ray(two_nodes))
    night.wait_for_results(run, 40)
    os.killpg(run.pid, signal.SIGKILL)
    night.wait(run)
    done = len(night.results())
    assert 0 < done < 200
    end = time.monotonic() + 30
    while two_nodes.actors() and time.monotonic() < end:
        time.sleep(0.1)
    assert two_nodes.actors() == []
    ended = night.run(*on_ray(two_nodes))
    assert (ended.exit_code, ended.answer["selected"]) == (0, 200 - done), ended.err
    assert night.results() == night.expected()
    night.check(ended)
