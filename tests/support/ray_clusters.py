"""Ray clusters on this machine for tests: each node a raylet of its own."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]


class Nodes:
    """The first cannot be killed: it is the head, and what goes with it is the cluster."""

    def __init__(self, cluster: Any, cpus: tuple[int, ...]) -> None:
        self.address: str = cluster.address
        self._cluster = cluster
        self._others = [cluster.add_node(num_cpus=count) for count in cpus]

    def kill_last(self) -> None:
        """Its raylet by SIGKILL, as a machine that is switched off."""
        (info,) = self._others[-1].all_processes["raylet"]
        os.kill(info.process.pid, signal.SIGKILL)

    def replace_last(self) -> None:
        self._cluster.remove_node(self._others.pop())
        self._others.append(self._cluster.add_node(num_cpus=1))
        self._cluster.wait_for_nodes()


@contextmanager
def nodes_of(*cpus: int) -> Iterator[Nodes]:
    """A node of so many CPUs each."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", str(REPOSITORY))
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus[0], "include_dashboard": False})
        try:
            yield Nodes(cluster, cpus[1:])
        finally:
            cluster.shutdown()
