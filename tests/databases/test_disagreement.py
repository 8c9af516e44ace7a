"""Two models' labels are compared alike on every database."""

from pathlib import Path

from infer_app.ask.compare.compare_versions import compare_labels
from infer_app.ask.compare.paired_answers import Overlap, count_overlap, paired_images
from infer_app.ask.figures.detections import Part, read_together
from infer_app.base.settings.sections import SourceSettings
from infer_app.tables.listing.image_registry import add_images
from infer_app.tables.listing.source import Source, find_by_id, find_similar
from infer_app.tables.queries.listed_images import ListedImages
from tests.conftest import DAY
from tests.support.results import commit, predicted


def test_labels_are_compared_by_bytes(database):
    add_images(database, [Path(f"/p/{number}.jpg") for number in range(1, 6)], DAY.start.replace(tzinfo=None))
    source = Source(database, SourceSettings())
    ids = [ref.image_id for ref in source.select_new(DAY, "a")]
    commit(database, predicted(*ids[:4], label="Cat"), model_id="a")
    surest = predicted(ids[0], label="cat", score=0.4), predicted(ids[1], label="cat", score=0.25)  # A's are 0.3
    commit(database, (*surest[0], *surest[1], *predicted(*ids[2:4], label="Cat")), model_id="b")
    images = ListedImages(database, source)
    assert count_overlap(images, DAY, ("a", "b")) == Overlap(4, only_a=0, only_b=0, neither=1)
    found = compare_labels(paired_images(read_together(images, DAY, ("a", "b"), Part.OUTPUT)), "images", limit=5)
    assert (found["agree"], found["confusions"]) == (2, [{"a": "Cat", "b": "cat", "images": 2}])
    assert [(one["image_id"], one["label_a"], one["label_b"]) for one in found["images"]] == [
        (ids[0], "Cat", "cat"),
        (ids[1], "Cat", "cat"),
    ]


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
