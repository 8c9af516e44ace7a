from infer_app.base.errors import StorageUnavailable
from tests.support.web_server import remote_limits, web_server
from tests.unit.run.flow.test_outage_guard import failed, guard, guard_until_it_ends, locations, predicted


def test_a_web_server_that_is_gone_ends_the_run_at_its_first_failure():
    with web_server() as gone:
        access = remote_limits(gone.url).remote
    results = [predicted(), failed(gone.url)]
    assert guard_until_it_ends(results, StorageUnavailable, "Connection refused", remote=access) == [predicted()]


def test_a_web_server_is_asked_twice_and_is_there_if_it_gives_another_image():
    with web_server() as server:
        results, access = [failed(server.url)] * 20, remote_limits(server.url).remote
        assert locations(guard(results, remote=access, is_other_there=lambda _: True)) == locations(results)
        assert server.num_connections <= 2  # once when they begin to fail, once at the end
        assert guard_until_it_ends(results, StorageUnavailable, "20 reads from .* failed", remote=access) == []
