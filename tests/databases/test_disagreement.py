"""Two models' labels are compared alike on every database."""

from pathlib import Path

from infer_app.ask.figures.disagreement import Disagreement, Overlap
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.listing.source import Source, find_by_id, find_similar
from tests.conftest import DAY
from tests.support.results import commit, predicted


def test_labels_are_compared_by_bytes(database):
    add_images(database, [Path(f"/p/{number}.jpg") for number in range(1, 6)], DAY.start.replace(tzinfo=None))
    source = Source(database, SourceSettings())
    ids = [ref.image_id for ref in source.select_new(DAY, "a")]
    commit(database, predicted(*ids[:4], label="Cat"), model_id="a")
    commit(database, (*predicted(*ids[:2], label="cat"), *predicted(*ids[2:4], label="Cat")), model_id="b")
    sides = Disagreement(database, source, DAY, "a", "b")
    assert sides.overlap() == Overlap(both=4, only_a=0, only_b=0, neither=1, agreeing=2)
    assert sides.confusions(5) == [("Cat", "cat", 2)]
    assert [(pair["label_a"], pair["label_b"]) for pair in sides.surest(5)] == [("Cat", "cat")] * 2
    assert len(list(sides.pairs())) == 4


def test_an_image_is_found_by_its_id_and_by_what_looks_like_it(database):
    add_images(database, [Path("/p/1%.jpg"), Path("/p/12.jpg")], DAY.start.replace(tzinfo=None))
    source = Source(database, SourceSettings())
    (ref, _) = source.select_new(DAY, "a")
    assert find_by_id(source, ref.image_id) == [(ref.location, DAY.start)]
    assert find_by_id(source, ref.image_id, DAY) == [(ref.location, DAY.start)]
    assert find_by_id(source, ref.image_id, DAY.before(1)) == []
    assert find_by_id(source, "x'; --") == []
    assert [location for _, location in find_similar(source, "%.jpg")] == ["/p/1%.jpg"]
    assert find_similar(source, "\\") == []
