"""What a decoder fills up with grey and no warning is refused all the same."""

import contextlib
import time

import numpy as np
import pytest

import tests.support.jpegs as jpegs
from infer_app.domain import Reason
from infer_app.images.decode.decoder import DecodeLimits, decode_image, has_turbo
from infer_app.images.read.bad_image import BadImage
from infer_app.recipe import Recipe

PLAIN = (Recipe("stretch", size=8), DecodeLimits(10**6))
needs_turbo = pytest.mark.skipif(not has_turbo(), reason="needs libturbojpeg: apt-get install libturbojpeg0")


def refusal(data: bytes) -> Reason | None:
    try:
        decode_image(data, *PLAIN)
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


@needs_turbo
@pytest.mark.parametrize("num_bytes", [1, 7, 16])
def test_a_few_bytes_before_the_end_marker_lose_nothing(num_bytes):
    """As some cameras write them. Many may be what is left of an overwritten picture."""
    whole = jpegs.baseline()
    padded = whole[:-2] + bytes(num_bytes) + whole[-2:]
    assert np.array_equal(decode_image(padded, *PLAIN).rgb, decode_image(whole, *PLAIN).rgb)
    with pytest.raises(BadImage) as caught:
        decode_image(whole[:-2] + bytes(40) + whole[-2:], *PLAIN)
    assert caught.value.reason is Reason.CORRUPT


@pytest.mark.parametrize("junk", [b"\xff\xfe\x00\x02", b"\xff\x00", b"\xff\x01", b"\xff", b"\xff\xe1\x00\x08Exif\0\0"])
def test_floods_of_markers_cost_little_time(junk):
    whole = jpegs.baseline()
    start = time.process_time()
    with contextlib.suppress(BadImage):
        decode_image(whole[:20] + junk * (8_000_000 // len(junk)) + whole[20:], *PLAIN)
    assert time.process_time() - start < 30  # two seconds where it is slow; work for each pair of them would take hours
