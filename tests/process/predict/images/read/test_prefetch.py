import itertools
import threading

import pytest

from infer_app.base.domain import Chunk, ImageRef, Reason
from infer_app.predict.images.read import bad_image
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


def test_a_server_that_allows_few_reads_at_a_time_gives_every_picture(server, monkeypatch):
    """It answers 503 to most of the others, without saying when to come again."""
    monkeypatch.setattr(bad_image, "FIRST_PAUSE_S", 0.01)
    chunk, turns = chunk_of(server, 1, 40), threading.Semaphore(1)
    numbers = itertools.count()

    def answer(handler):
        if turns.acquire(blocking=False):
            handler.status(503) if next(numbers) % 4 else handler.send(b"x")
            turns.release()
        else:
            handler.status(503)

    server.serve("/first.jpg", b"x")
    server.answers |= {path: answer for path in server.answers if path != "/first.jpg"}
    prefetch = Prefetch(remote_limits(server.url, concurrency=8, retries=1))
    assert prefetch.read(ImageRef("first", f"{server.url}/first.jpg")).data == b"x"
    prefetch.expect(chunk)
    assert read_all(prefetch, chunk) == ["x"] * 40
    assert sum(server.hits.values()) > 2 * 40


def test_a_server_that_gave_no_picture_yet_is_not_waited_for(server):
    server.serve("/1-0.jpg", b"", 503)
    prefetch = Prefetch(remote_limits(server.url, retries=1))
    assert refusal(prefetch.read, ImageRef("1-0", f"{server.url}/1-0.jpg")).detail.endswith("tried 2 times")


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
