import pytest

from infer_app.domain import Reason
from infer_app.errors import StorageUnavailable
from infer_app.locations import AllowedPrefix, RemoteAccess
from tests.support.web_server import web_server
from tests.unit.pipeline.flow.test_outage_guard import guard_against_outages, located, predicted, refs


@pytest.fixture
def root(tmp_path):
    (tmp_path / "there.jpg").touch()
    return tmp_path


def test_a_web_server_that_is_gone_ends_the_run_at_its_first_failure(root):
    with web_server() as gone:
        url = gone.url
    access = RemoteAccess((AllowedPrefix.parse(url),), frozenset({"127.0.0.1"}), retries=0)
    written = []
    with pytest.raises(StorageUnavailable, match="Connection refused"):
        for result in guard_against_outages(
            [predicted(root), located(f"{url}/1.jpg", Reason.READ_ERROR)], [root], access
        ):
            written.append(result)  # noqa: PERF402
    assert written == [predicted(root)]


def test_a_web_server_that_answers_anything_is_there(root):
    with web_server() as server:
        access = RemoteAccess((AllowedPrefix.parse(server.url),), frozenset({"127.0.0.1"}), retries=0)
        results = [located(f"{server.url}/{i}.jpg", Reason.READ_ERROR) for i in range(20)]
        assert refs(guard_against_outages(results, [root], access)) == refs(results)
        assert server.num_connections <= 2  # once when they begin to fail, once at the end
