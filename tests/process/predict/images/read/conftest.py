"""Readers are made anew for each test: the process keeps them, with their certificates and connections."""

import pytest

from infer_app.predict.images.read.remote import readers_of


@pytest.fixture(autouse=True)
def no_readers_of_other_tests():
    readers_of.cache_clear()
    yield
    readers_of.cache_clear()
