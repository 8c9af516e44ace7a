"""A web server; and readers that are made anew: the process keeps them, with their certificates and connections."""

import pytest

from infer_app.predict.images.read import remote
from infer_app.predict.images.read.remote import readers_of
from tests.support.web_server import web_server


@pytest.fixture(autouse=True)
def no_readers_of_other_tests():
    readers_of.cache_clear()
    remote._read_last.clear()
    yield
    readers_of.cache_clear()


@pytest.fixture(scope="module")
def running():
    with web_server() as server:
        yield server


@pytest.fixture
def server(running):
    running.answers.clear()
    running.hits.clear()
    running.heard.clear()
    return running
