import pytest

from infer_app.errors import StorageUnavailable, UsageError
from infer_app.holdback import MAX_FAILED_READS, hold_back
from infer_app.records import Broken, ChunkResult, ImageRef, Output, Prediction, Reason


@pytest.fixture
def root(tmp_path):
    (tmp_path / "there.jpg").touch()
    return tmp_path


def failed(root, reason=Reason.READ_ERROR, count=1):
    refs = [ImageRef(str(i), f"{root}/{i}.jpg") for i in range(count)]
    return ChunkResult(0, (), tuple(Broken(ref, reason, "", "read") for ref in refs))


def predicted(root):
    return ChunkResult(1, (Prediction(ImageRef("p", f"{root}/p.jpg"), Output(), None),), ())


def test_a_few_failed_reads_are_written(root):
    results = [failed(root, Reason.NOT_FOUND), failed(root), predicted(root)]
    assert list(hold_back(results, [root])) == results


def test_reads_that_all_fail_end_the_run_and_reject_nothing(root):
    written = []
    with pytest.raises(StorageUnavailable, match=f"{MAX_FAILED_READS} reads failed in a row"):
        written.extend(hold_back([failed(root)] * MAX_FAILED_READS, [root]))
    assert written == []


def test_storage_that_fails_in_the_middle_keeps_what_was_predicted(root):
    written = []
    with pytest.raises(StorageUnavailable):
        for result in hold_back([predicted(root)] + [failed(root, count=100)] * 2, [root]):
            written.append(result)  # noqa: PERF402 (extend would lose them)
    assert written == [predicted(root)]


def test_one_success_proves_the_storage(root):
    results = [failed(root, count=199), predicted(root), failed(root, count=199)]
    assert list(hold_back(results, [root])) == results


@pytest.mark.parametrize("gone", ["missing", "empty"])
def test_a_root_that_is_gone_ends_the_run_before_any_not_found(tmp_path, gone):
    root = tmp_path / "mount"
    if gone == "empty":
        root.mkdir()
    with pytest.raises(StorageUnavailable, match="gone or empty"):
        list(hold_back([failed(root, Reason.NOT_FOUND)], [root]))


def test_when_no_location_is_allowed_the_root_to_allow_is_shown(root):
    with pytest.raises(UsageError) as caught:
        list(hold_back([failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED)], [root]))
    assert 'roots = ["/elsewhere"]' in caught.value.hint


def test_a_few_that_are_not_allowed_are_rejections(root):
    results = [failed("/elsewhere", Reason.LOCATION_NOT_ALLOWED), predicted(root)]
    assert list(hold_back(results, [root])) == results
