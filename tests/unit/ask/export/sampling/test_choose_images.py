import tracemalloc
from collections import Counter
from dataclasses import replace

import pytest

from infer_app.ask.export.sampling.choose_images import choose_images, keep_one_per_event
from infer_app.base.errors import UsageError
from tests.support.exports import CAT, DATE, DOG, KnownCaptures, classified, detected, export_of, tagged, with_output


def choose(images, by, count=2, thresholds=None, seed=0, kind="detection"):
    dated = ((DATE, image) for image in images)
    export = export_of(kind=kind, thresholds=thresholds)
    return [image.image_id for _, image in choose_images(dated, by, count, export, seed)]


def scored(image_id, *scores, label="cat"):
    return detected(image_id, *(CAT._replace(score=score, label=label) for score in scores))


def test_objects_near_their_threshold_are_uncertain():
    images = [scored("1", 0.9, 0.1), scored("2", 0.9, 0.45), scored("3"), scored("4", 0.61), scored("5", 0.88)]
    assert choose(images, "uncertain", 5) == ["2", "4", "5", "1", "3"]
    assert choose(images, "uncertain", 3, {"": 0.88}) == ["5", "1", "2"]
    assert choose(images, "uncertain", 1, {"": 0.88, "cat": 0.12}) == ["1"]


def test_a_small_margin_of_the_two_best_classes_is_uncertain():
    images = [classified("1", a=0.9, b=0.1), classified("2", a=0.4, b=0.35), classified("3", a=0.2)]
    assert choose(images, "uncertain", 3, kind="classification") == ["2", "3", "1"]


def test_labels_near_their_threshold_are_uncertain():
    images = [tagged("1", a=0.9), tagged("2", a=0.9, b=0.21), tagged("3")]  # 0.2 is that of the build
    assert choose(images, "uncertain", 3, kind="classification") == ["2", "3", "1"]
    assert choose(images, "uncertain", 1, {"a": 0.9}, kind="classification") == ["1"]


def test_a_random_choice_is_the_same_in_any_order_and_changes_with_the_seed():
    images = [scored(str(number), 0.5) for number in range(100)]
    first = choose(images, "random", 10)
    assert len(set(first)) == 10
    assert first == sorted(first, key=int)
    assert set(choose(images[::-1], "random", 10)) == set(first)
    assert set(choose(images[50:], "random", 10)) >= set(first) & {str(number) for number in range(50, 100)}
    assert choose(images, "random", 10, seed=1) != first
    days = [replace(image, location=f"/{day}/{image.image_id}.jpg") for day in range(5) for image in images]
    assert len(set(choose(days, "random", 20))) > 10  # whose ids begin again


def test_labels_are_spread_evenly():
    images = [detected(f"cat{n}", CAT) for n in range(90)] + [detected(f"dog{n}", DOG) for n in range(30)]
    images += [detected("fox", CAT, DOG._replace(label="fox")), *(detected(f"empty{n}") for n in range(3))]
    chosen = choose(images, "label", 20)
    kinds = Counter(one.rstrip("0123456789") for one in chosen)
    assert kinds == {"cat": 8, "dog": 8, "fox": 1, "empty": 3}
    assert chosen == sorted(chosen, key=[image.image_id for image in images].index)


def test_only_labels_that_are_shown_count():
    images = [scored("1", 0.9), scored("2", 0.3, label="dog"), scored("3", 0.9), scored("4", 0.8, label="dog")]
    assert set(choose(images, "label", 3, {"": 0.5})) >= {"2", "4"}


def test_fewer_images_than_wanted_are_all_chosen():
    images = [scored("1", 0.9), scored("2", 0.5)]
    assert [sorted(choose(images, by, 5)) for by in ("uncertain", "random", "label")] == [["1", "2"]] * 3


@pytest.mark.parametrize("by", ["uncertain", "random", "label"])
def test_memory_is_bounded_by_the_number_that_is_chosen(by):
    def many():
        for number in range(2000):
            yield scored(str(number), *(index / 20 for index in range(20)), label=f"label {number % 7}")

    tracemalloc.start()
    assert len(choose(many(), by, 10)) == 10
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000  # bytes: all 2,000 images together have 8 million


def test_outputs_without_labels_are_chosen_at_random_only():
    image = with_output("1", vector=[1.0])
    assert choose([image], "random", kind="embedding") == ["1"]
    with pytest.raises(UsageError, match="embedding outputs, which have no labels"):
        choose([image], "uncertain", kind="embedding")
    with pytest.raises(UsageError, match="--by rare is unknown"):
        choose([image], "rare")


@pytest.mark.parametrize("by", ["uncertain", "random"])
def test_one_image_of_each_event_is_left_of_those_without_an_object_too(by):
    images = [scored("1", 0.9), scored("2", 0.5), detected("3"), detected("4"), scored("5", 0.9)]
    events = zip([image.picture for image in images[:4]], (7, 7, 8, 8), strict=True)
    export = replace(export_of(*images), captures=KnownCaptures(events))
    kept = [image.image_id for _, image in keep_one_per_event(export.read_predictions, by, export, 0)]
    assert (len(kept), kept[-1]) == (3, "5")
    assert by == "random" or kept[0] == "2"
