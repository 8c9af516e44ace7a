import pytest

from infer_app.base.errors import DeviceLost
from infer_app.predict.handlers.predictor import device_loss_raised

AcceleratorError = type("AcceleratorError", (RuntimeError,), {})  # as torch names it


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (RuntimeError("CUDA error: an illegal access\nCompile with …"), "CUDA error: an illegal access"),
        (AcceleratorError("the device is gone"), "the device is gone"),
        (RuntimeError("CUDA error: out of memory"), None),  # a smaller batch may fit
        (RuntimeError("shapes do not match"), None),
        (ValueError("CUDA error: in a text"), None),
    ],
)
def test_only_errors_after_which_the_gpu_is_unusable_are_its_loss(error, told):
    with pytest.raises(DeviceLost if told else type(error)) as caught, device_loss_raised():
        raise error
    assert str(caught.value) == (f"the GPU failed: {told}" if told else str(error))
