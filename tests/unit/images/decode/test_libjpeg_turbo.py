from collections.abc import Callable

import pytest

from infer_app.images.decode.libjpeg_turbo import without_oddities
from tests.support.jpegs import baseline, cmyk, grey, non_interleaved, progressive, with_restarts


@pytest.mark.parametrize("made", [baseline, progressive, grey, cmyk, with_restarts, non_interleaved])
def test_a_jpeg_without_oddities_stays_as_it_is(made: Callable[[], bytes]):
    assert without_oddities(made()) == made()


def test_oddities_are_put_right_and_the_scan_is_untouched():
    data = baseline()
    odd = data.replace(b"JFIF\0\1\1", b"JFIF\0\7\7").replace(b"\0\x3f\0", b"\1\2\3", 1)
    assert odd != data
    assert without_oddities(odd[:2] + b"stray" + odd[2:]) == data
