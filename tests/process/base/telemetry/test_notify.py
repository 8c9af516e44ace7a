import shutil
import threading
import time

import pytest

from infer_app.base.telemetry.notify import Ping, Undelivered, event_url, post, wait_for
from tests.support.listeners import Closed, Raw, Recorder, read_request, stay_silent, with_certificate


@pytest.fixture
def serve(request):
    """serve(Raw(…)) is closed at the end."""

    def keep(server):
        request.addfinalizer(server.close)
        return server

    return keep


def problem(url, **limit):
    with pytest.raises(Undelivered) as caught:
        post(url, b"{}", "application/json", **limit)
    return str(caught.value)


def test_the_body_arrives_as_it_is(listener):
    post(f"{listener.url}/secret?create=1", "é".encode(), "text/plain; charset=utf-8")
    (heard,) = listener.heard
    assert (heard.path, heard.body) == ("/secret?create=1", "é")
    assert heard.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert heard.headers["User-Agent"].startswith("infer_app/")


def test_user_and_password_of_an_address_become_a_header(listener):
    post(listener.url.replace("//", "//me:p%40ss@") + "/x", b"", "text/plain")
    assert listener.heard[0].headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert listener.heard[0].headers["Host"] == listener.url.removeprefix("http://")


def hang_up(connection):
    read_request(connection)


def say_canary(connection):
    read_request(connection)
    connection.sendall(b"canary\r\n\r\n")


def flood(connection):
    read_request(connection)
    while True:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"canary" * 100_000)


@pytest.mark.parametrize(
    ("make_server", "told"),
    [
        pytest.param(lambda: Recorder(500), "the server answered 500", id="error"),
        pytest.param(lambda: Raw(hang_up), "RemoteDisconnected", id="hangs up"),
        pytest.param(lambda: Raw(say_canary), "BadStatusLine", id="no HTTP"),
        pytest.param(lambda: Raw(flood), "LineTooLong", id="without end"),
        pytest.param(Closed, "Connection refused", id="no server"),
    ],
)
def test_what_a_server_does_wrong_is_told_without_its_words(serve, make_server, told):
    assert problem(f"{serve(make_server()).url}/canary") == told


def test_a_redirect_is_not_followed(serve, listener):
    server = serve(Recorder(302, location=listener.url))
    assert problem(server.url) == "the server answered 302 and redirects are not followed"
    assert listener.heard == []


def test_a_server_that_speaks_no_tls_is_told(listener):
    assert "SSL" in problem(listener.url.replace("http:", "https:"))


def test_a_silent_server_is_told(serve):
    host = serve(Raw(stay_silent)).host
    assert [problem(f"{scheme}://{host}", step_s=0.2) for scheme in ("http", "https")] == ["no answer"] * 2


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl: apt-get install openssl")
def test_a_certificate_that_nobody_trusts_is_refused(serve, tmp_path):
    server = serve(Raw(with_certificate(tmp_path)))
    assert problem(f"https://{server.host}").startswith("its certificate is not trusted: self")


def test_a_name_that_no_host_has_is_told(name_server):
    assert problem("http://nowhere.invalid/canary") == "Name or service not known"


def test_what_is_said_of_a_strange_address_does_not_show_it():
    assert problem("http://127.0.0.1/canary with a space") == "InvalidURL"
    assert problem("http://127.0.0.1:canary/") == "InvalidURL"


def test_a_proxy_of_the_environment_is_used(listener, monkeypatch):
    monkeypatch.setenv("http_proxy", listener.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    post("http://nowhere.invalid/x", b"", "text/plain")
    assert listener.paths == ["http://nowhere.invalid/x"]


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("https://hc/u", "https://hc/u/start"),
        ("https://hc/u/", "https://hc/u/start"),
        ("https://hc/u?create=1", "https://hc/u/start?create=1"),
    ],
)
def test_the_event_is_the_end_of_the_path(url, start):
    assert (event_url(url, "start"), event_url(url, "")) == (start, url)


def wait(task):
    wait_for([task], time.monotonic() + 60, lambda: False)
    return task.problem


def test_the_start_of_a_ping_delays_nobody_and_still_comes_first(listener):
    listener.gates["/u/start"] = threading.Event()
    end = Ping(f"{listener.url}/u", start_s=60.0).end(0, "")  # though the start is not answered
    end.wait(time.monotonic() + 0.2)
    assert (end.has_ended, "/u" in listener.paths) == (False, False)
    listener.gates["/u/start"].set()
    assert wait(end) is None
    assert listener.paths == ["/u/start", "/u"]


def test_a_start_that_hangs_does_not_hold_up_the_end(listener):
    listener.gates["/u/start"] = threading.Event()
    assert wait(Ping(f"{listener.url}/u", start_s=0.3).end(0, "")) is None
    assert listener.paths == ["/u"]
    listener.gates["/u/start"].set()
