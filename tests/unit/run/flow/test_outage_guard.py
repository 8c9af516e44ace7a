import pytest

from infer_app.base.domain import Broken, ChunkResult, ImageRef, Output, Prediction, Reason
from infer_app.base.errors import NothingAllowed, StorageUnavailable, UsageError
from infer_app.base.locations import NO_MAPPING, NOTHING_REMOTE, PathMapping
from infer_app.base.read_limits import ReadLimits
from infer_app.run.flow import outage_guard
from infer_app.run.flow.outage_guard import MAX_FAILED_READS, MAX_MISSING

ROOT, HOST = "/photos", "https://host"


def guard(results, remote=NOTHING_REMOTE, path_map=NO_MAPPING, **asked):
    return outage_guard.guard_against_outages(results, ReadLimits((ROOT,), 1 << 20, remote, path_map), **asked)


def guard_until_it_ends(results, error, match="", **asked):
    """What was written until then."""
    written = []
    with pytest.raises(error, match=match):
        for result in guard(results, **asked):
            written.append(result)  # noqa: PERF402 (extend would lose them)
    return written


def failed(folder, reason=Reason.READ_ERROR, count=1):
    refs = [ImageRef(str(i), f"{folder}/{i}.jpg") for i in range(count)]
    return ChunkResult(0, (), tuple(Broken(ref, reason, "", "read") for ref in refs))


def missing(folder, count=1):
    return failed(folder, Reason.NOT_FOUND, count)


def refused(folder="/elsewhere", count=1):
    return failed(folder, Reason.LOCATION_NOT_ALLOWED, count)


def predicted(folder=ROOT):
    return ChunkResult(1, (Prediction(ImageRef("p", f"{folder}/p.jpg"), Output()),), ())


def together(*results):
    return ChunkResult(
        0,
        tuple(one for result in results for one in result.predictions),
        tuple(one for result in results for one in result.broken),
    )


def locations(results):
    return sorted(ref.location for result in results for ref in result.refs)


@pytest.mark.parametrize(
    "results",
    [
        pytest.param([missing(ROOT), failed(ROOT), predicted()], id="a few failed reads"),
        pytest.param([failed(ROOT, count=199), predicted(), failed(ROOT, count=199)], id="a success between them"),
        pytest.param([predicted(), missing(ROOT, 125), missing(ROOT, 125), predicted()], id="missing files"),
        pytest.param([predicted(HOST), missing(HOST, 250), predicted(HOST)], id="missing on a server"),
        pytest.param([failed(HOST, Reason.READ_TIMEOUT), failed(HOST, Reason.CORRUPT)], id="a broken file was read"),
        pytest.param([refused(), predicted()], id="one that is not allowed"),
        pytest.param([predicted(), refused(count=MAX_FAILED_READS)], id="beside an allowed one"),
    ],
)
def test_what_the_storage_may_not_be_the_cause_of_is_written(results):
    asked = {"is_any_done_allowed": lambda: pytest.fail("asked"), "is_other_there": lambda _: True}
    assert locations(guard(results, **asked)) == locations(results)


def test_reads_that_all_fail_end_the_run_and_reject_nothing():
    many = f"{MAX_FAILED_READS} reads failed in a row"
    assert guard_until_it_ends([failed(ROOT)] * MAX_FAILED_READS, StorageUnavailable, many) == []
    in_the_middle = [predicted()] + [failed(ROOT, count=100)] * 2
    assert guard_until_it_ends(in_the_middle, StorageUnavailable, many) == [predicted()]


@pytest.mark.parametrize("num_chunks", [2, MAX_MISSING // 100])
def test_where_none_is_read_after_missing_files_another_image_tells_whether_they_were_deleted(num_chunks):
    results, asked = [predicted(), *[missing(ROOT, 100)] * num_chunks], []
    assert list(guard(results, is_other_there=lambda location: asked.append(location) or True)) == results
    assert asked == [f"{ROOT}/99.jpg"]
    gone, many = {"is_other_there": lambda location: False}, f"{100 * num_chunks} reads failed in a row"
    assert guard_until_it_ends(results, StorageUnavailable, many, **gone) == [predicted()]


def test_no_more_missing_files_are_held_than_memory_has_room_for():
    results = iter([missing(ROOT, 100)] * (MAX_MISSING // 50))
    next(guard(results, is_other_there=lambda location: True))
    assert len(list(results)) == MAX_MISSING // 100


def test_missing_files_do_not_hide_reads_that_fail():
    mixed = together(missing(ROOT, 50), failed(ROOT, count=50))
    there = {"is_other_there": lambda location: True}
    assert guard_until_it_ends([mixed] * 5, StorageUnavailable, "400 reads failed in a row", **there) == []


def test_one_storage_that_fails_does_not_hide_behind_another_that_works():
    mixed = [together(predicted(), failed(HOST, Reason.PERMISSION_DENIED)) for _ in range(300)]
    written = guard_until_it_ends(mixed, StorageUnavailable, f"200 reads from {HOST} failed in a row")
    assert locations(written) == [f"{ROOT}/p.jpg"] * 199


def test_failed_reads_of_a_chunk_wait_for_a_read_of_their_own_storage():
    written = list(guard([together(predicted(), missing(HOST)), predicted(), predicted(HOST)]))
    here, there = [f"{ROOT}/p.jpg"], [f"{HOST}/p.jpg"]
    assert [locations([result]) for result in written] == [here, here, [f"{HOST}/0.jpg"], there]


@pytest.mark.parametrize("count", [1, MAX_FAILED_READS + 1])
def test_where_an_image_that_is_done_is_allowed_those_that_are_not_are_rejections(count):
    results = [refused(count=count), refused("")]
    assert list(guard(results, is_any_done_allowed=lambda: True)) == results


@pytest.mark.parametrize(
    ("locations", "said"),
    [
        (["", ""], "none of 2 images to predict has an allowed location (allowed: /photos), for example image 0"),
        (["", "x.jpg"], "for example image 1, x.jpg: why"),
        (["/srv/x.jpg"], "no image to predict has an allowed location (allowed: /photos), for example image 0, /srv/x"),
    ],
)
def test_it_is_told_how_many_have_no_allowed_location_and_what_is_wrong_with_one(locations, said):
    refs = [ImageRef(str(number), location) for number, location in enumerate(locations)]
    all_refused = tuple(Broken(ref, Reason.LOCATION_NOT_ALLOWED, "why", "read") for ref in refs)
    with pytest.raises(NothingAllowed) as caught:
        list(guard([ChunkResult(0, (), all_refused)]))
    assert said in caught.value.message
    assert ("[source] query" in caught.value.hint) == (locations != ["/srv/x.jpg"])


@pytest.mark.parametrize(
    ("folder", "path_map", "said", "hint"),
    [
        ("/elsewhere", {}, "/elsewhere/0.jpg", 'roots = ["/elsewhere"]'),
        ("/srv", {"/srv": "/mnt"}, "/srv/0.jpg, read as /mnt/0.jpg", 'roots = ["/mnt"]'),
        (f"{ROOT}/../..", {}, "..", "without .."),
    ],
    ids=["elsewhere", "read elsewhere", "above the root"],
)
def test_when_no_location_is_allowed_the_root_to_allow_is_shown(folder, path_map, said, hint):
    with pytest.raises(UsageError) as caught:
        list(guard([refused(folder)], path_map=PathMapping.of(path_map)))
    assert said in caught.value.message
    assert hint in caught.value.hint
