from infer_app.base.errors import StorageUnavailable
from infer_app.base.locations import AllowedPrefix, RemoteAccess
from tests.support.web_server import web_server
from tests.unit.run.flow.test_outage_guard import failed, guard, guard_until_it_ends, locations, predicted


def access(server):
    return RemoteAccess((AllowedPrefix.parse(server.url),), frozenset({"127.0.0.1"}), retries=0)


def test_a_web_server_that_is_gone_ends_the_run_at_its_first_failure():
    with web_server() as gone:
        pass
    results = [predicted(), failed(gone.url)]
    assert guard_until_it_ends(results, StorageUnavailable, "Connection refused", remote=access(gone)) == [predicted()]


def test_a_web_server_is_asked_twice_and_is_there_if_it_gives_another_image():
    with web_server() as server:
        results = [failed(server.url)] * 20
        assert locations(guard(results, remote=access(server), is_other_there=lambda _: True)) == locations(results)
        assert server.num_connections <= 2  # once when they begin to fail, once at the end
        failing = guard_until_it_ends(results, StorageUnavailable, "20 reads from .* failed", remote=access(server))
        assert failing == []
