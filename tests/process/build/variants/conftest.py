"""Photos by which variants are judged, and a run of the model that is active."""

import pytest

from infer_app.base.errors import DayHeld
from tests.support.networks import Network, built, save_photos


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of 24 photos."""
    return save_photos(tmp_path_factory.mktemp("photos") / "photos")


@pytest.fixture
def network(tmp_path):
    return built(tmp_path, Network(), labels=None)


def a_run_is_active():
    raise DayHeld("run 1 is active")
