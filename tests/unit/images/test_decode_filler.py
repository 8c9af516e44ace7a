"""What a decoder fills up with grey and no warning is refused all the same."""

import jpegs
import pytest

from infer_app.images.bad_image import BadImage
from infer_app.images.decode import DecodeLimits, decode_image, has_turbo
from infer_app.records import Reason, Recipe

needs_turbo = pytest.mark.skipif(not has_turbo(), reason="no libturbojpeg.so.0 on this machine")


def refusal(data: bytes) -> Reason | None:
    try:
        decode_image(data, Recipe("stretch", size=8), DecodeLimits(10**6))
    except BadImage as refused:
        return refused.reason
    return None


@needs_turbo
@pytest.mark.parametrize("made", [jpegs.baseline, jpegs.grey, jpegs.with_restarts, jpegs.progressive])
def test_a_tail_of_zeros_is_no_picture(made):
    """A file that was being written when its machine went down; zeros are valid codes."""
    data = made()
    start = data.index(b"\xff\xda") + 20
    for length in range(start, len(data) - 2):
        for num_zeros in (4, 40, len(data) - length):
            if num_zeros >= 4:
                assert refusal(data[:length] + bytes(num_zeros)) in (Reason.TRUNCATED, Reason.CORRUPT)


def test_a_component_without_a_scan_is_no_picture():
    """Cut behind a scan and closed again, as a tool that repairs downloads does."""
    data = jpegs.non_interleaved()
    assert refusal(data) is None
    first = data.index(b"\xff\xda")
    second = data.index(b"\xff\xda", first + 2)
    third = data.index(b"\xff\xda", second + 2)
    assert refusal(data[:second] + b"\xff\xd9") is Reason.TRUNCATED
    assert refusal(data[:third] + b"\xff\xd9") is Reason.TRUNCATED
    assert refusal(data[:second] + data[third:]) is Reason.TRUNCATED
