from itertools import islice

import pytest

from infer_app.base.domain import Broken, Chunk, ChunkResult, DetectedObject, ImageRef, NewImage, Reason, StoredObjects
from infer_app.predict.chunking import CHUNK_S, FEW_IMAGES, MAX_IMAGES, MAX_OBJECTS, ChunkSize, cut_into_chunks


def refs(count):
    return [ImageRef(str(n), f"/{n}.jpg") for n in range(count)]


def took(seconds, num_images=FEW_IMAGES):
    broken = tuple(Broken(ref, Reason.EMPTY, "", "read") for ref in refs(num_images))
    measured = {"cpu_seconds": {"decode": seconds / 4, "model": seconds / 2}, "wait_seconds": {"read": seconds / 4}}
    return ChunkResult(0, (), broken, **measured)


def test_chunks_hold_every_image_once_and_in_order():
    chunks = list(cut_into_chunks((NewImage(ref, (0,)) for ref in refs(25)), ChunkSize(10)))
    assert [len(chunk.refs) for chunk in chunks] == [10, 10, 5]
    assert [chunk.number for chunk in chunks] == [0, 1, 2]
    assert [ref for chunk in chunks for ref in chunk.refs] == refs(25)
    assert list(cut_into_chunks([], ChunkSize())) == []


def test_images_that_are_new_for_other_models_are_in_other_chunks():
    models = [(0, 1), (1,), (0, 1), (0,), (1,)]
    new = [NewImage(ref, of) for ref, of in zip(refs(5), models, strict=True)]
    zero, one, two, three, four = refs(5)
    assert list(cut_into_chunks(new, ChunkSize(2))) == [
        Chunk(0, (zero, two), (0, 1)),
        Chunk(1, (one, four), (1,)),
        Chunk(2, (three,), (0,)),
    ]


def test_a_chunk_with_many_stored_objects_ends_early_and_its_parts_have_their_own():
    box = (0, DetectedObject("animal", 0, 0.9, 0.0, 0.0, 1.0, 1.0), 7)
    stored = StoredObjects((box,) * (MAX_OBJECTS // 4), None)
    new = [NewImage(ref, (1,), stored) for ref in refs(9)]
    chunks = list(cut_into_chunks(new, ChunkSize(100)))
    assert [len(chunk.refs) for chunk in chunks] == [4, 4, 1]
    assert [list(chunk.objects) for chunk in chunks] == [list(chunk.refs) for chunk in chunks]
    assert dict(chunks[1].of(chunks[1].refs[2:3]).objects) == {new[6].ref: stored}


def test_a_day_is_cut_lazily():
    endless = (NewImage(ImageRef(str(n), "/x.jpg"), (0,)) for n in iter(int, 1))
    assert len(list(islice(cut_into_chunks(endless, ChunkSize()), 3))) == 3


@pytest.mark.parametrize(
    ("least", "ms_per_image", "images"),
    [
        *((FEW_IMAGES, *one) for one in ((1000.0, FEW_IMAGES), (15.0, 16), (2.9, 80), (0.1, MAX_IMAGES))),
        *((2, *one) for one in ((3000.0, 2), (60.0, 4), (15.0, 16))),  # of a slow model a few batches
    ],
)
def test_a_chunk_is_what_a_worker_does_in_its_time(least, ms_per_image, images):
    size = ChunkSize(least=least)
    assert size() == least
    size.learn(took(ms_per_image / 1e3 * least, least))
    assert size() == images
    assert size() % least == 0
    assert images in (least, MAX_IMAGES) or abs(images * ms_per_image / 1e3 - CHUNK_S) < 0.15


VERDICT = ChunkResult(0, (), (Broken(refs(1)[0], Reason.DECODER_CRASH, "", "decode"),))  # over a dead worker


@pytest.mark.parametrize(("size", "result"), [(ChunkSize(5), took(0.001)), (ChunkSize(), VERDICT)])
def test_a_size_that_was_asked_for_stays_and_a_verdict_over_a_dead_worker_teaches_nothing(size, result):
    before = size()
    size.learn(result)
    assert size() == before
