"""What a process tree costs, measured on small ones whose cost is known."""

import os
import subprocess
import sys
import textwrap

import pytest
from processes import descendants, run_measured, tree_cpu_seconds

MIB = 1 << 20
measures = pytest.mark.alone  # samples, which come late on a busy machine


def measure(script, **how):
    return run_measured([sys.executable, "-c", textwrap.dedent(script)], **how)


def test_output_errors_and_exit_code_are_the_programs_which_keeps_to_its_cores():
    ours = os.sched_getaffinity(0)
    script = """
        import os, sys
        print(input(), os.sched_getaffinity(0))
        print('no', file=sys.stderr)
        sys.exit(3)
    """
    cost = measure(script, stdin="yes\n", cores={min(ours)})
    assert (cost.output, cost.errors, cost.exit_code) == (f"yes {{{min(ours)}}}\n", "no\n", 3)
    assert os.sched_getaffinity(0) == ours


@measures
def test_cpu_time_of_children_counts_even_when_nobody_waits_for_them():
    cost = measure("""
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then forgets what they used
        if os.fork() == 0:
            while time.process_time() < 1: pass
            os._exit(0)
        time.sleep(1.5)
    """)
    assert 0.7 < cost.cpu_seconds < 1.5


@measures
def test_what_other_programs_took_meanwhile_is_told_apart():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as stranger:
        try:
            cost = measure("import time\nwhile time.process_time() < 1: pass")
        finally:
            stranger.kill()
    own = cost.cpu_seconds / cost.seconds / os.cpu_count()
    assert 0.3 / os.cpu_count() < cost.others < 1.05 - own


def test_orphans_are_waited_for_and_count():
    cost = measure("""
        import os, time
        if os.fork() == 0:
            while time.process_time() < 0.6: pass
    """)
    assert 0.6 <= cost.cpu_seconds < 1.2


@measures
def test_memory_that_processes_share_is_counted_once():
    cost = measure(f"""
        import os, time
        block = b"x" * (100 * {MIB})
        children = [os.fork() for _ in range(1)]
        time.sleep(1)
    """)
    assert 100 * MIB < cost.peak_pss < 150 * MIB


def test_a_program_that_takes_too_long_is_ended_with_its_children():
    before = descendants(os.getpid())  # a fork server, where a test has started one
    with pytest.raises(subprocess.TimeoutExpired):
        measure("import os, time; os.fork(); time.sleep(60)", timeout_s=0.5)
    assert descendants(os.getpid()) == before


def test_cpu_seconds_of_a_living_tree():
    script = "import os, time; os.fork()\nwhile time.process_time() < 0.4: pass\nprint(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1, text=True) as busy:
        busy.stdout.readline()
        busy.stdout.readline()
        assert 0.7 < tree_cpu_seconds(busy.pid) < 1.5
        busy.stdin.close()
