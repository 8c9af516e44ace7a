"""Control groups of both versions, made as files; this machine's own limits are none of these tests' business."""

import resource
from resource import RLIM_INFINITY, RLIMIT_DATA, getrlimit

import pytest

from infer_app.base.machine import (
    LEAST_LEFT,
    allocatable,
    cap_by_memory,
    computes_bf16,
    find_memory_limit,
    has_vnni,
    kept_within_memory,
    usable_cores,
    usable_memory,
)
from tests.support.box import LARGE, MANY, MIB


def test_without_control_groups_it_is_what_the_machine_has_and_the_process_may_run_on(box):
    assert (usable_cores(), usable_memory()) == (MANY, None)
    box.cores = {3, 5, 7}
    box.has_available(700 * MIB)
    assert (usable_cores(), usable_memory()) == (3, 700 * MIB)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        *(("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("1000 100000", 1), ("25000 10000", 3)),
        *((no_quota, MANY) for no_quota in ("max 100000", "max", "", "0 100000", "100000 0", "nonsense")),
    ],
)
def test_a_quota_is_rounded_up_to_whole_cores_unless_the_process_may_run_on_fewer(box, quota, cores):
    box.belongs_to("0::/app")
    box.group("app", cpu_max=quota)
    assert usable_cores() == cores
    box.cores = {0}
    assert usable_cores() == 1


@pytest.mark.parametrize(
    ("outer", "inner", "cores"),
    [("200000 100000", "max 100000", 2), ("max 100000", "300000 100000", 3), ("200000 100000", "800000 100000", 2)],
)
def test_the_narrowest_limit_on_the_way_up_holds(box, outer, inner, cores):
    box.has_available(10_000 * MIB)
    box.belongs_to("0::/system.slice/infer.service")
    box.group("system.slice", cpu_max=outer, memory_max=500 * MIB, memory_current=400 * MIB)
    box.group("system.slice/infer.service", cpu_max=inner, memory_max=800 * MIB, memory_current=400 * MIB)
    box.group("elsewhere", cpu_max="100000 100000")
    assert (usable_cores(), usable_memory()) == (cores, 100 * MIB)


def test_in_a_container_the_limits_lie_at_the_root(box):
    """It has a view of its own, or is told a path of the host that it can't see."""
    box.group("", cpu_max="200000 100000", memory_max=100 * MIB, memory_current=0)
    for path in ("/", "/docker/0123456789abcdef", "/../../outside"):
        box.belongs_to(f"0::{path}")
        assert (usable_cores(), usable_memory()) == (2, 100 * MIB)


def test_version_1_has_a_tree_for_each_controller(box):
    box.belongs_to("5:cpu,cpuacct:/docker/abc", "4:memory:/docker/abc", "1:name=systemd:/docker/abc")
    box.group("cpu,cpuacct/docker/abc", **{"cpu_cfs_quota_us": 250000, "cpu_cfs_period_us": 100000})
    box.group("memory/docker/abc", memory_limit_in_bytes=300 * MIB, memory_usage_in_bytes=100 * MIB)
    box.group("memory", memory_limit_in_bytes=9223372036854771712, memory_usage_in_bytes=500 * MIB)
    assert (usable_cores(), usable_memory()) == (3, 200 * MIB)
    box.group("cpu,cpuacct/docker/abc", cpu_cfs_quota_us=-1)  # there is no quota
    assert usable_cores() == MANY


def test_memory_is_what_a_group_has_left_and_pages_that_go_at_once_count_as_left(box):
    box.has_available(10_000 * MIB)
    box.belongs_to("0::/app")
    box.group("app", memory_max=1000 * MIB, memory_current=800 * MIB)
    assert usable_memory() == 200 * MIB
    box.group("app", memory_current=1001 * MIB)  # over its limit
    assert usable_memory() == 0
    box.group("app", memory_current=800 * MIB, memory_stat=f"anon 5\ninactive_file {300 * MIB}\nactive_file 7")
    assert usable_memory() == 500 * MIB
    box.group("app", memory_max="max")
    assert usable_memory() == 10_000 * MIB


@pytest.mark.parametrize(
    ("available", "worker_bytes", "workers"),
    [
        (10_000 * MIB, 100 * MIB, 8),
        (1000 * MIB, 300 * MIB, 3),
        (1000 * MIB, 301 * MIB, 2),  # a tenth is kept free
        (1000 * MIB, None, 2),  # 400 MiB are assumed
        (1000 * MIB, 0, 2),
        (10 * MIB, 300 * MIB, 1),
    ],
)
def test_as_many_workers_as_the_memory_holds_and_at_least_one(box, available, worker_bytes, workers):
    assert cap_by_memory(8, worker_bytes) == 8  # where nothing is known of it
    box.has_available(available)
    assert cap_by_memory(8, worker_bytes) == workers


@pytest.mark.parametrize(("before", "left"), [(RLIM_INFINITY, 360), (LARGE + 500 * MIB, 360), (LARGE + 200 * MIB, 200)])
def test_a_process_is_kept_within_what_its_group_has_left(box, before, left):
    box.has_allocated(LARGE)
    box.belongs_to("0::/app")
    box.group("app", memory_max=1000 * MIB, memory_current=800 * MIB)
    box.group("app", memory_stat=f"inactive_file {150 * MIB}\nactive_file {50 * MIB}")
    hard = getrlimit(RLIMIT_DATA)[1]
    resource.setrlimit(RLIMIT_DATA, (before, hard))
    with kept_within_memory(find_memory_limit()):
        assert getrlimit(RLIMIT_DATA) == (LARGE + left * MIB, hard)
        assert allocatable() == left * MIB
    assert getrlimit(RLIMIT_DATA) == (before, hard)


def test_where_a_group_has_nothing_left_the_kernel_decides_about_small_images(box):
    box.has_allocated(LARGE)
    box.belongs_to("0::/app")
    box.group("app", memory_max=1000 * MIB, memory_current=1000 * MIB)
    with kept_within_memory(find_memory_limit()):
        assert allocatable() == LEAST_LEFT


@pytest.mark.parametrize("files", [{}, {"memory_max": "max"}, {"memory_limit_in_bytes": 9223372036854771712}])
def test_without_a_limit_of_a_group_a_process_has_none(box, files):
    box.has_available(100 * MIB)
    box.belongs_to("0::/app")
    box.group("app", **files, memory_current=5, memory_usage_in_bytes=5)
    box.has_allocated(9)
    before = getrlimit(RLIMIT_DATA)
    with kept_within_memory(find_memory_limit()):
        assert (getrlimit(RLIMIT_DATA), allocatable()) == (before, None)


@pytest.mark.parametrize(
    ("line", "bf16", "vnni"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 avx2", True, False),
        ("flags\t\t: fpu amx_bf16 amx_tile", True, False),
        ("Features\t: fp asimd bf16", True, False),
        ("Features\t: fp asimd asimddp", False, True),
        ("flags\t\t: fpu avx512f avx512_vnni", False, True),
        ("flags\t\t: fpu avx2 avx_vnni", False, True),
        ("model name\t: amx_bf16 avx_vnni in a name", False, False),
        ("", False, False),
    ],
)
def test_bf16_and_vnni_are_read_from_the_flags_of_the_cpu(line, bf16, vnni, box):
    (box.proc / "cpuinfo").write_text(f"processor\t: 0\n{line}\n")
    assert (computes_bf16(), has_vnni()) == (bf16, vnni)
