from infer_app.recipe import Size
from infer_app.workers.fork_server import context
from infer_app.workers.shared_ring import Ring
from tests.process.workers.ring_calls import fill


def test_what_a_process_writes_another_reads():
    with Ring(3, 2, Size.square(8)) as ring:
        process = context().Process(target=fill, args=(ring, 1, 7))
        process.start()
        process.join()
        assert process.exitcode == 0
        assert [set(slot.ravel().tolist()) for slot in ring.pixels] == [{0}, {7}, {0}]
