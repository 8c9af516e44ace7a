"""How images are refused."""

from collections.abc import Callable

import pytest

from infer_app.predict.images.read.bad_image import BadImage


def refusal(function: Callable[..., object], *arguments: object, **options: object) -> BadImage:
    """Call what must refuse an image, and return how it did."""
    with pytest.raises(BadImage) as caught:
        function(*arguments, **options)
    return caught.value
