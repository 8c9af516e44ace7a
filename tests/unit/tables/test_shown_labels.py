import struct

from infer_app.tables.rows.results import PredictedCrop, StoredOutput
from infer_app.tables.shown_labels import ShownLabels


def test_a_group_has_a_score_of_one_at_most():
    """Scores are 32 bits, so those of all labels may add up to more."""
    scores = [struct.unpack("f", struct.pack("f", one))[0] for one in (0.8, 0.1, 0.1)]
    assert sum(scores) > 1
    listed = ", ".join(
        f'{{"label": "{name}", "index": 0, "score": {one!r}}}' for name, one in zip("abc", scores, strict=True)
    )
    crop = PredictedCrop("a", scores[0], StoredOutput(f'{{"top": [{listed}]}}', None, None))
    shown = ShownLabels({"": 0.9}, {name: ("animal", name) for name in "abc"}).crop(crop)
    assert shown[:3] == ("animal", None, 1.0)
