from contextlib import nullcontext

import pytest

from infer_app.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.errors import NothingAllowed, StorageUnavailable, UsageError
from infer_app.images.read.local_files import ReadLimits
from infer_app.locations import NO_MAPPING, NOTHING_REMOTE, PathMapping
from infer_app.pipeline.flow import outage_guard
from infer_app.pipeline.flow.outage_guard import MAX_FAILED_READS


@pytest.fixture
def root(tmp_path):
    (tmp_path / "there.jpg").touch()
    return tmp_path


def guard_against_outages(results, roots, remote=NOTHING_REMOTE, path_map=NO_MAPPING, is_any_done_allowed=bool, *more):
    return outage_guard.guard_against_outages(
        results, ReadLimits(tuple(roots), 1 << 20, remote, path_map), is_any_done_allowed, *more
    )


def failed(root, reason=Reason.READ_ERROR, count=1):
    refs = [ImageRef(str(i), f"{root}/{i}.jpg") for i in range(count)]
    return ChunkResult(0, (), tuple(Broken(ref, reason, "", "read") for ref in refs))


def predicted(root):
    return ChunkResult(1, (Prediction(ImageRef("p", f"{root}/p.jpg"), Output()),), ())


def test_a_few_failed_reads_are_written(root):
    results = [failed(root, Reason.NOT_FOUND), failed(root), predicted(root)]
    assert list(guard_against_outages(results, [root])) == results


def test_reads_that_all_fail_end_the_run_and_reject_nothing(root):
    written = []
    with pytest.raises(StorageUnavailable, match=f"{MAX_FAILED_READS} reads failed in a row"):
        written.extend(guard_against_outages([failed(root)] * MAX_FAILED_READS, [root]))
    assert written == []


def test_storage_that_fails_in_the_middle_keeps_what_was_predicted(root):
    written = []
    with pytest.raises(StorageUnavailable):
        for result in guard_against_outages([predicted(root)] + [failed(root, count=100)] * 2, [root]):
            written.append(result)  # noqa: PERF402 (extend would lose them)
    assert written == [predicted(root)]


def test_one_success_proves_the_storage(root):
    results = [failed(root, count=199), predicted(root), failed(root, count=199)]
    assert list(guard_against_outages(results, [root])) == results


@pytest.mark.parametrize("storage", ["{root}", "https://host"])
def test_missing_files_are_rejections_however_many_where_one_that_follows_is_read(root, storage):
    storage = storage.format(root=root)
    results = [predicted(storage), *[failed(storage, Reason.NOT_FOUND, 125)] * 2, predicted(storage)]
    assert list(guard_against_outages(results, [root])) == results


@pytest.mark.parametrize("is_other_there", [True, False])
@pytest.mark.parametrize("most_held", [10_000, MAX_FAILED_READS])
def test_where_none_is_read_after_missing_files_another_image_tells_whether_they_were_deleted(
    root, is_other_there, most_held, monkeypatch
):
    monkeypatch.setattr(outage_guard, "MAX_MISSING", most_held)
    results, asked, written = [predicted(root), *[failed(root, Reason.NOT_FOUND, 100)] * 2], [], []
    guarded = guard_against_outages(
        results, [root], NOTHING_REMOTE, NO_MAPPING, bool, lambda missing: asked.append(missing) or is_other_there
    )
    with nullcontext() if is_other_there else pytest.raises(StorageUnavailable, match="200 reads failed in a row"):
        for result in guarded:
            written.append(result)  # noqa: PERF402 (extend would lose them)
    assert (written, asked) == (results if is_other_there else [predicted(root)], [f"{root}/99.jpg"])


def test_missing_files_do_not_hide_reads_that_fail(root):
    mixed = together(failed(root, Reason.NOT_FOUND, 50), failed(root, Reason.READ_ERROR, 50))
    with pytest.raises(StorageUnavailable, match="400 reads failed in a row"):
        list(guard_against_outages([mixed] * 5, [root], NOTHING_REMOTE, NO_MAPPING, bool, lambda _: True))


def test_when_no_location_is_allowed_the_root_to_allow_is_shown(root):
    with pytest.raises(UsageError) as caught:
        list(guard_against_outages([failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED)], [root]))
    assert 'roots = ["/elsewhere"]' in caught.value.hint


@pytest.mark.parametrize("count", [1, MAX_FAILED_READS + 1])
def test_where_an_image_that_is_done_is_allowed_those_that_are_not_are_rejections(root, count):
    results = [failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED, count), located("", Reason.LOCATION_NOT_ALLOWED)]
    assert list(guard_against_outages(results, [root], is_any_done_allowed=lambda: True)) == results


def test_images_that_are_done_are_not_asked_for_beside_an_allowed_one(root):
    results = [predicted(root), failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED, MAX_FAILED_READS)]
    assert list(guard_against_outages(results, [root], is_any_done_allowed=lambda: pytest.fail("asked"))) == results


@pytest.mark.parametrize(
    ("locations", "said"),
    [
        (["", ""], "none of 2 images to predict has an allowed location (allowed: {root}), for example image 0 has no"),
        (["", "x.jpg"], "for example image 1, x.jpg: why"),
        (["/srv/x.jpg"], "no image to predict has an allowed location (allowed: {root}), for example image 0, /srv/x"),
    ],
)
def test_it_is_told_how_many_have_no_allowed_location_and_what_is_wrong_with_one(root, locations, said):
    refs = [ImageRef(str(number), location) for number, location in enumerate(locations)]
    refused = tuple(Broken(ref, Reason.LOCATION_NOT_ALLOWED, "why", "read") for ref in refs)
    with pytest.raises(NothingAllowed) as caught:
        list(guard_against_outages([ChunkResult(0, (), refused)], [root]))
    assert said.format(root=root) in caught.value.message
    assert ("[source] query" in caught.value.hint) == (locations != ["/srv/x.jpg"])


def test_where_a_location_lies_here_is_told_and_allowed(root):
    path_map = PathMapping.of({"/srv/photos": "/photos"})
    with pytest.raises(UsageError) as caught:
        list(
            guard_against_outages(
                [failed("/srv/photos", Reason.LOCATION_NOT_ALLOWED)], [root], NOTHING_REMOTE, path_map
            )
        )
    assert "/srv/photos/0.jpg, read as /photos/0.jpg" in caught.value.message
    assert 'roots = ["/photos"]' in caught.value.hint


def test_a_folder_above_the_root_is_not_proposed(root):
    with pytest.raises(UsageError) as caught:
        list(guard_against_outages([failed(f"{root}/../..", Reason.LOCATION_NOT_ALLOWED)], [root]))
    assert "without .." in caught.value.hint


def test_a_few_that_are_not_allowed_are_rejections(root):
    results = [failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED), predicted(root)]
    assert list(guard_against_outages(results, [root])) == results


def located(location, reason=None, number=0):
    ref = ImageRef(location, location)
    if reason is None:
        return ChunkResult(number, (Prediction(ref, Output()),), ())
    return ChunkResult(number, (), (Broken(ref, reason, "", "read"),))


def together(*results):
    return ChunkResult(
        0,
        tuple(one for result in results for one in result.predictions),
        tuple(one for result in results for one in result.broken),
    )


def refs(results):
    return sorted(ref.image_id for result in results for ref in result.refs)


def test_one_storage_that_fails_does_not_hide_behind_another_that_works(root):
    mixed = [together(predicted(root), located(f"https://host/{i}.jpg", Reason.PERMISSION_DENIED)) for i in range(300)]
    written = []
    with pytest.raises(StorageUnavailable, match="200 reads from https://host failed in a row"):
        for result in guard_against_outages(mixed, [root]):
            written.append(result)  # noqa: PERF402 (extend would lose them)
    assert refs(written) == ["p"] * 199


def test_failed_reads_of_a_chunk_wait_for_a_read_of_their_own_storage(root):
    first = together(predicted(root), located("https://host/1.jpg", Reason.NOT_FOUND))
    second = located("https://host/2.jpg")
    written = list(guard_against_outages([first, predicted(root), second], [root]))
    assert [refs([result]) for result in written] == [["p"], ["p"], ["https://host/1.jpg"], ["https://host/2.jpg"]]


def test_what_was_read_and_is_broken_proves_a_storage(root):
    results = [located("s3://b/1", Reason.READ_TIMEOUT), located("s3://b/2", Reason.CORRUPT)]
    assert refs(guard_against_outages(results, [root])) == ["s3://b/1", "s3://b/2"]
