from pathlib import Path

import pytest

from infer_app.cli.model.check import MAX_BLOCKS, cut_into_blocks


@pytest.mark.parametrize(
    ("num_images", "num_workers", "sizes"),
    [
        (1, 2, [1]),
        (32, 2, [32]),
        (33, 2, [32, 1]),
        (232, 2, [32, 100, 100]),
        (1000, 2, [32, 139, 139, 139, 139, 139, 139, 134]),
        (1000, 16, [256, 372, 372]),
    ],
)
def test_after_the_first_images_both_sides_are_timed_in_blocks(num_images, num_workers, sizes):
    paths = [Path(str(number)) for number in range(num_images)]
    blocks = cut_into_blocks(paths, num_workers)
    assert [len(block) for block in blocks] == sizes
    assert [path for block in blocks for path in block] == paths
    assert len(cut_into_blocks([*paths] * 100, num_workers)) <= MAX_BLOCKS + 1
