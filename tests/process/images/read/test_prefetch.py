import threading

import pytest

from infer_app.domain import Chunk, ImageRef, Reason
from infer_app.images.read import prefetch as prefetch_module
from infer_app.images.read.bad_image import BadImage
from infer_app.images.read.local_files import ReadLimits
from infer_app.images.read.prefetch import Prefetch
from infer_app.locations import AllowedPrefix, RemoteAccess
from tests.support.web_server import web_server

CONCURRENCY = 3


@pytest.fixture
def server():
    with web_server() as server:
        yield server


@pytest.fixture
def prefetch(server):
    access = RemoteAccess((AllowedPrefix.parse(server.url),), frozenset({"127.0.0.1"}), 5.0, 0, CONCURRENCY)
    return Prefetch(ReadLimits((), 1 << 20, access))


def chunk_of(server, number, count):
    refs = tuple(ImageRef(f"{number}-{i}", f"{server.url}/{number}-{i}.jpg") for i in range(count))
    for ref in refs:
        server.serve(f"/{ref.image_id}.jpg", ref.image_id.encode())
    return Chunk(number, refs)


def read_all(prefetch, chunk):
    return [prefetch.read(ref).data.decode() for ref in chunk.refs]


def test_images_come_by_their_refs_and_each_is_fetched_once(server, prefetch):
    first, second = chunk_of(server, 1, 20), chunk_of(server, 2, 20)
    for chunk in (first, second, first, second):  # told twice: by the listener and by the lane
        prefetch.expect(chunk)
    for chunk in (first, second):
        assert read_all(prefetch, chunk) == [ref.image_id for ref in chunk.refs]
    assert set(server.hits.values()) == {1}


def test_a_chunk_that_is_told_late_is_not_fetched_again(server, prefetch):
    chunk = chunk_of(server, 1, 5)
    prefetch.expect(chunk)
    read_all(prefetch, chunk)
    prefetch.expect(chunk)
    assert (sum(server.hits.values()), prefetch._started) == (5, {})


def test_what_nobody_expected_is_read_all_the_same(server, prefetch):
    expected, other = chunk_of(server, 1, 20), chunk_of(server, 2, 2)
    prefetch.expect(expected)
    assert read_all(prefetch, other) == ["2-0", "2-1"]
    assert read_all(prefetch, expected) == [ref.image_id for ref in expected.refs]


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


def test_no_more_is_begun_while_much_is_held(server, prefetch, monkeypatch):
    monkeypatch.setattr(prefetch_module, "HELD_BYTES", 3)  # one image has as many
    chunk = chunk_of(server, 1, 30)
    prefetch.expect(chunk)
    for ref in chunk.refs[:5]:
        prefetch.read(ref)
        held = [future for future in prefetch._started.values() if future.done()]
        assert len(held) <= 2 * CONCURRENCY
    assert read_all(prefetch, chunk.of(chunk.refs[5:])) == [ref.image_id for ref in chunk.refs[5:]]


def test_a_bad_image_is_told_apart_from_its_neighbours(server, prefetch):
    chunk = chunk_of(server, 1, 3)
    del server.answers["/1-1.jpg"]
    prefetch.expect(chunk)
    assert prefetch.read(chunk.refs[0]).data == b"1-0"
    with pytest.raises(BadImage) as caught:
        prefetch.read(chunk.refs[1])
    assert caught.value.reason is Reason.NOT_FOUND
    assert prefetch.read(chunk.refs[2]).data == b"1-2"


def test_local_files_are_left_alone(server, prefetch, tmp_path):
    prefetch.expect(Chunk(1, (ImageRef("1", str(tmp_path / "a.jpg")),)))
    assert not prefetch._started
    assert not prefetch._waiting
