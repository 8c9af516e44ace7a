import threading

import pytest

from infer_app.base.domain import Chunk, ImageRef, Reason
from infer_app.predict.images.read.prefetch import Prefetch
from tests.support.refusals import refusal
from tests.support.web_server import remote_limits

CONCURRENCY = 3


@pytest.fixture
def prefetch(server):
    return Prefetch(remote_limits(server.url, concurrency=CONCURRENCY))


def chunk_of(server, number, count):
    refs = tuple(ImageRef(f"{number}-{i}", f"{server.url}/{number}-{i}.jpg") for i in range(count))
    for ref in refs:
        server.serve(f"/{ref.image_id}.jpg", ref.image_id.encode())
    return Chunk(number, refs)


def read_all(prefetch, chunk):
    return [prefetch.read(ref).data.decode() for ref in chunk.refs]


def test_images_come_by_their_refs_and_each_is_fetched_once(server, prefetch):
    first, second, other = chunk_of(server, 1, 20), chunk_of(server, 2, 20), chunk_of(server, 3, 2)
    for chunk in (first, second, first, second):  # told twice: by the listener and by the worker
        prefetch.expect(chunk)
    for chunk in (other, first, second):  # what nobody expected is read all the same
        assert read_all(prefetch, chunk) == [ref.image_id for ref in chunk.refs]
    prefetch.expect(second)  # late
    assert set(server.hits.values()) == {1}
    bad = chunk_of(server, 4, 3)
    del server.answers["/4-1.jpg"]
    prefetch.expect(bad)
    assert prefetch.read(bad.refs[0]).data == b"4-0"
    assert (refusal(prefetch.read, bad.refs[1]).reason, prefetch.read(bad.refs[2]).data) == (Reason.NOT_FOUND, b"4-2")


def test_reads_go_on_beside_each_other_and_no_more_are_begun_than_two_for_each_thread(server, prefetch):
    together, most = threading.Barrier(CONCURRENCY, timeout=60), []
    chunk = chunk_of(server, 1, 30)

    def answer(handler):
        most.append(len(prefetch._started))
        together.wait()  # fails unless so many ask at the same time
        handler.send(b"x")

    server.answers = dict.fromkeys(server.answers, answer)
    prefetch.expect(chunk)
    assert read_all(prefetch, chunk) == ["x"] * 30
    assert max(most) == 2 * CONCURRENCY


def test_no_more_is_begun_while_much_is_held(server):
    prefetch = Prefetch(remote_limits(server.url, concurrency=CONCURRENCY), most_bytes=0)  # held from the beginning
    chunk = chunk_of(server, 1, 30)
    prefetch.expect(chunk)
    read = chunk.of(chunk.refs[:5])
    assert read_all(prefetch, read) == [ref.image_id for ref in read.refs]
    assert sum(server.hits.values()) == 5


def test_local_files_are_left_alone(server, prefetch, tmp_path):
    prefetch.expect(Chunk(1, (ImageRef("1", str(tmp_path / "a.jpg")),)))
    assert not prefetch._started
    assert not prefetch._waiting
