import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """As in a run; the models are so small that a second thread only waits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
