import hashlib
import logging
import time
from functools import partial

import pytest

from infer_app.base.domain import FileFacts, Reason
from infer_app.predict.images.read.read_image import read_image
from tests.support import web_server as web
from tests.support.refusals import refusal

CONTENT = bytes(range(256)) * 40
STALL_S = 1.0  # the time limit where an answer stalls


@pytest.fixture(scope="module")
def canary():
    """A server on loopback that nobody may ask anything."""
    with web.web_server() as server:
        server.serve("/secret.jpg", CONTENT)
        yield server
        assert not server.hits
        assert server.num_connections == 0


def limits(server, *places, retries=3, **how):
    return web.remote_limits(*(places or (server.url,)), retries=retries, **how)


def refused(server, path, **how):
    return refusal(read_image, server.url + path, limits(server, **how))


def test_bytes_come_with_size_time_and_checksum(server):
    server.serve("/a.jpg", CONTENT, Last_Modified="Fri, 20 Nov 2026 12:00:00 GMT")
    image = read_image(f"{server.url}/a.jpg", limits(server))
    assert image.data == CONTENT
    assert image.facts == FileFacts(len(CONTENT), 1795176000.0, hashlib.sha256(CONTENT).hexdigest())


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("/100%/a%20b.jpg", "/100%25/a%20b.jpg"),
        ("/%C3%A9//'(1)'.jpg?a=%2B&b=?:@/", "/%C3%A9//'(1)'.jpg?a=%2B&b=?:@/"),
        ("/a.jpg?discount=5%&sig=a%2Fb", "/a.jpg?discount=5%25&sig=a%2Fb"),
    ],
)
def test_what_is_escaped_is_not_escaped_again_and_no_encoding_is_asked_for(server, written, sent):
    server.serve(sent.partition("?")[0], CONTENT)
    read_image(server.url + written, limits(server))
    assert server.hits == {sent: 1}
    assert server.heard[-1]["Accept-Encoding"] == "identity"


def test_a_connection_is_used_again(server):
    server.serve("/a.jpg", CONTENT)
    allowed = limits(server)
    before = server.num_connections
    for _ in range(5):
        read_image(f"{server.url}/a.jpg", allowed)
    assert server.num_connections == before + 1


def test_chunks_and_gzip_are_undone(server):
    server.answers |= {"/chunked.jpg": web.chunked(CONTENT), "/gzipped.jpg": web.gzipped(CONTENT)}
    server.serve("/whole.jpg", CONTENT, Content_Encoding="aws-chunked")
    for path in server.answers:
        assert read_image(server.url + path, limits(server)).data == CONTENT


def answers_with(code):
    return lambda handler: handler.head(code, Content_Length="0")


def serves(body, **headers):
    return lambda handler: handler.send(body, **headers)


GZIP, BROTLI = {"Content_Encoding": "gzip"}, {"Content_Encoding": "br"}
REFUSALS = {
    # what the server does, how often it may be asked again; the reason, part of the detail, how often it is asked
    "404": (answers_with(404), 3, Reason.NOT_FOUND, "404", 1),
    "410": (answers_with(410), 3, Reason.NOT_FOUND, "410", 1),
    "401": (answers_with(401), 3, Reason.PERMISSION_DENIED, "401", 1),
    "403": (answers_with(403), 3, Reason.PERMISSION_DENIED, "403", 1),
    "204": (answers_with(204), 3, Reason.READ_ERROR, "204", 1),
    "418": (answers_with(418), 3, Reason.READ_ERROR, "418", 1),
    "failures": (web.fails(99, 500, CONTENT), 2, Reason.READ_ERROR, "HTTP 500 Internal Server Error; tried 3 times", 3),
    "long pause": (web.fails(1, 429, CONTENT, Retry_After="3600"), 3, Reason.READ_ERROR, "429", 1),
    "negative chunk": (web.says_a_negative_chunk, 0, Reason.READ_ERROR, "a chunk of a negative size", 1),
    "ends early": (web.closes_mid_body(CONTENT), 1, Reason.READ_ERROR, "closed after 5,120 of 10,240 bytes", 2),
    "loop": (web.redirects_to("/a.jpg"), 3, Reason.READ_ERROR, "more than 5 redirects", 6),
    "endless": (web.is_endless, 3, Reason.TOO_LARGE_BYTES, "more than the 100,000 bytes", 1),
    "endless chunks": (web.is_endless_in_chunks, 3, Reason.TOO_LARGE_BYTES, "more than the 100,000 bytes", 1),
    "bomb": (web.gzipped(bytes(50_000_000)), 3, Reason.TOO_LARGE_BYTES, "unzipped more than", 1),
    "announced": (lambda handler: handler.head(Content_Length="1" + "0" * 12), 3, Reason.TOO_LARGE_BYTES, "10", 1),
    "empty": (serves(b""), 3, Reason.READ_ERROR, "0 bytes; tried 4 times", 4),
    "no gzip": (serves(b"no gzip", **GZIP), 3, Reason.READ_ERROR, "no gzip body, as announced: begins 6e 6f", 1),
    "brotli": (serves(b"\x0b\x02\x80", **BROTLI), 3, Reason.READ_ERROR, "was not requested", 1),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_an_answer_without_an_image_is_refused_and_asked_for_again_only_where_that_may_help(server, kind):
    server.answers["/a.jpg"], retries, reason, detail, hits = REFUSALS[kind]
    found = refused(server, "/a.jpg", retries=retries)
    assert (found.reason, detail in found.detail, server.hits["/a.jpg"]) == (reason, True, hits), found.detail


@pytest.mark.parametrize(
    "answer", [*(partial(web.fails, 2, code) for code in (429, 500, 502, 503)), partial(web.resets, 2)]
)
def test_what_goes_well_at_the_third_time_is_read(server, answer):
    server.answers["/a.jpg"] = answer(CONTENT)
    assert read_image(f"{server.url}/a.jpg", limits(server)).data == CONTENT
    assert server.hits["/a.jpg"] == 3


def test_a_server_that_asks_for_a_pause_gets_it(server):
    server.answers["/a.jpg"] = web.fails(1, 429, CONTENT, Retry_After="1")
    started = time.monotonic()
    read_image(f"{server.url}/a.jpg", limits(server))
    assert time.monotonic() - started >= 1


@pytest.mark.parametrize(
    "answer", [web.stalls_after_headers, web.never_answers, web.trickles_headers, web.trickles_body]
)
def test_every_wait_ends_at_the_deadline(server, answer):
    server.answers["/a.jpg"] = answer
    started = time.monotonic()
    found = refused(server, "/a.jpg", timeout_s=STALL_S)
    assert time.monotonic() - started > STALL_S * 0.9
    assert (found.reason, server.hits["/a.jpg"]) == (Reason.READ_TIMEOUT, 1)  # no time is left for another try


def test_of_a_body_longer_than_announced_the_rest_is_no_answer_to_the_next_request(server):
    server.answers["/a.jpg"] = web.says_less_than_it_sends(CONTENT)
    server.serve("/b.jpg", b"B" * 77)
    allowed = limits(server)
    assert read_image(f"{server.url}/a.jpg", allowed).data == CONTENT[: len(CONTENT) // 2]
    assert read_image(f"{server.url}/b.jpg", allowed).data == b"B" * 77


def test_exactly_the_cap_is_read(server):
    server.serve("/a.jpg", bytes(web.MAX_BYTES))
    server.serve("/b.jpg", bytes(web.MAX_BYTES + 1))
    assert len(read_image(f"{server.url}/a.jpg", limits(server)).data) == web.MAX_BYTES
    assert refused(server, "/b.jpg").reason is Reason.TOO_LARGE_BYTES


def test_redirects_within_what_is_allowed_are_followed(server):
    server.answers["/a.jpg"] = web.redirects_to("/photos/b.jpg", 301)
    server.answers["/photos/b.jpg"] = web.redirects_to("c.jpg?x=1")
    server.serve("/photos/c.jpg", CONTENT)
    assert read_image(f"{server.url}/a.jpg", limits(server)).data == CONTENT
    assert server.hits["/photos/c.jpg?x=1"] == 1


@pytest.mark.parametrize("sent", ["/photos/Käfer 1.jpg".encode().decode("latin-1"), "/photos/K%C3%A4fer%201.jpg"])
def test_a_redirect_may_name_its_path_in_raw_bytes(server, sent):
    server.answers["/a.jpg"] = web.redirects_to(sent)
    server.serve("/photos/K%C3%A4fer%201.jpg", CONTENT)
    assert read_image(f"{server.url}/a.jpg", limits(server)).data == CONTENT


def test_no_redirect_leads_elsewhere(server, canary):
    targets = [
        f"{canary.url}/secret.jpg",
        f"//127.0.0.1:{canary.port}/secret.jpg",
        f"{server.url}@127.0.0.1:{canary.port}/secret.jpg",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data/",
        "/photos/../secret.jpg",
        "/photos/%2e%2e/secret.jpg",
        f"http://127.0.0.1:{server.port}\\@127.0.0.1:{canary.port}/secret.jpg",
        "",
    ]
    server.serve("/secret.jpg", CONTENT)
    for target in targets:
        server.answers["/photos/a.jpg"] = web.redirects_to(target)
        found = refusal(read_image, f"{server.url}/photos/a.jpg", limits(server, f"{server.url}/photos/"))
        expected = Reason.LOCATION_NOT_ALLOWED if target else Reason.READ_ERROR
        assert found.reason is expected, target
    assert server.hits["/secret.jpg"] == 0


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]
)
def test_a_local_address_needs_its_own_permission(canary, host):
    place = f"http://{host}:{canary.port}/"
    private = ("127.0.0.1",) if host == "localhost" else ()  # the permission of one is not that of another
    found = refusal(read_image, f"{place}secret.jpg", limits(canary, place, private=private))
    assert (found.reason, "local network" in found.detail) == (Reason.LOCATION_NOT_ALLOWED, True)


def test_a_server_that_is_down_or_has_no_address_is_a_read_error_that_says_so(server):
    with web.web_server() as gone:
        place = gone.url
    found = refusal(read_image, f"{place}/a.jpg", limits(server, place, retries=1))
    assert (found.reason, "Connection refused; tried 2 times" in found.detail) == (Reason.READ_ERROR, True)
    for host in ("no-such-host.invalid", "a" * 70):
        found = refusal(read_image, f"http://{host}/a.jpg", limits(server, f"http://{host}/", retries=0))
        assert found.reason is Reason.READ_ERROR


def test_neither_signatures_nor_what_the_server_says_are_told(server, caplog):
    caplog.set_level(logging.DEBUG)
    server.answers["/a.jpg"] = lambda handler: (
        handler.wfile.write(b"HTTP/9.canary canary\r\n\r\n") and handler.hang_up()
    )
    server.answers["/b.jpg"] = web.fails(99, 503, CONTENT)
    server.answers["/c.jpg"] = web.redirects_to("http://canary.example/?canary")
    server.answers["/d.jpg"] = lambda handler: handler.wfile.write(b"HTTP/1.1 404 No\r\ncanary canary\r\n\r\n")
    for path in ("/a.jpg", "/b.jpg", "/c.jpg", "/d.jpg", "/e.jpg"):
        assert "canary" not in refused(server, f"{path}?X-Amz-Signature=canary", retries=1).detail
    assert "canary" not in caplog.text
