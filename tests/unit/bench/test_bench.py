"""The table: a row for each strategy, whatever happens to one; and what its last line means."""

import pytest

from infer_app.bench import bench
from infer_app.bench.bench import Bottleneck, Order, Row, find_bottleneck, find_broken_files, measure_ladder
from infer_app.errors import InferError


@pytest.fixture
def order(artifact, files, tmp_path):
    (tmp_path / "infer.toml").touch()
    root = tmp_path.parent.parent
    return Order(files, tmp_path / "infer.toml", {}, artifact.folder, (root,), 2)


def test_a_row_has_all_its_figures(order):
    (row,) = measure_ladder(order, {}, only=["turbo"])
    assert (row.name, row.num_images, row.note, row.uses_model) == ("turbo", len(order.paths), "", False)
    assert min(row.images_per_second, row.cpu_s_per_1000, row.first_batch_s, row.peak_pss, row.seconds) > 0


def test_broken_files_reach_only_those_that_drop_them(order, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    order = bench.replace(order, paths=[*order.paths, str(tmp_path / "broken.jpg")])
    broken = find_broken_files(order)
    assert list(broken) == [str(tmp_path / "broken.jpg")]
    dropping, turbo = measure_ladder(order, broken, only=["drop-broken", "turbo"])
    assert (dropping.note, turbo.note) == ("1 broken dropped", "")


def test_a_strategy_that_fails_is_a_row_that_says_so(order, tmp_path):
    gone = bench.replace(order, paths=[*order.paths, str(tmp_path / "gone.jpg")])
    turbo, pinned = measure_ladder(gone, {}, only=["turbo", "pin-memory"])
    assert "not_found" in turbo.note
    assert turbo.note.startswith("failed: ")
    assert pinned.note == "no CUDA" or pinned.images_per_second


def test_a_strategy_that_takes_too_long_is_a_row_that_says_so(order, monkeypatch):
    monkeypatch.setattr(bench, "ROW_LIMIT_S", 0.2)
    assert [row.note for row in measure_ladder(order, {}, only=["naive"])] == ["took more than 0 s"]


def test_an_order_that_can_not_be_read_is_an_error(order, tmp_path):
    with pytest.raises(InferError):
        find_broken_files(bench.replace(order, artifact=tmp_path))


@pytest.mark.parametrize(
    ("loading", "both", "words"),
    [
        (
            3.0,
            15.0,
            "the model limits: 12.0 of 15.0 CPU ms per image are the model's; free loading would make a run 1.25 times"
            " as fast",
        ),
        (
            9.0,
            12.0,
            "loading limits: 3.0 of 12.0 CPU ms per image are the model's; a free model would make a run 1.33 times"
            " as fast",
        ),
    ],
)
def test_the_bottleneck_is_what_takes_the_most_cpu_time(loading, both, words):
    rows = [Row("lane", "", False, cpu_s_per_1000=loading), Row("executor", "", True, cpu_s_per_1000=both)]
    assert str(find_bottleneck(rows)) == words


def test_without_both_rows_there_is_no_bottleneck():
    assert find_bottleneck([Row("lane", "", False, cpu_s_per_1000=3.0), Row("executor", "", True)]) is None
    assert Bottleneck(2.0, 0.0).is_model is False
