import fcntl
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from infer_app.artifact import artifact as artifact_module
from infer_app.artifact.artifact import load_function, open_artifact, record_variant, save_manifest
from infer_app.artifact.models_folder import find_artifact, find_folder, list_artifacts, remove_folder
from infer_app.base.errors import ModelError, UsageError
from tests.support.networks import built


@pytest.fixture
def artifact(tmp_path):
    return built(tmp_path)


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        ("source.ts", flip_a_bit, r"source\.ts: changed since it was built"),
        ("source.ts", Path.unlink, "No such file"),
        ("more.txt", Path.touch, r"more\.txt is not a file of this model"),
    ],
)
def test_only_the_very_bytes_of_the_build_are_read(artifact, file, damage, message):
    artifact.verify()
    damage(artifact.folder / file)
    with pytest.raises(ModelError, match=message) as caught:
        artifact.read(file)
    assert ("infer model build" in caught.value.hint, caught.value.exit_code) == (True, 12)


def test_verify_names_every_problem_at_once(artifact):
    (artifact.folder / "labels.txt").write_text("green\nred\nblue\n")
    (artifact.folder / "golden" / "1.jpg").unlink()
    (artifact.folder / "golden" / "mine.jpg").write_bytes(b"x")
    with pytest.raises(ModelError) as caught:
        artifact.verify()
    told = caught.value.message.partition(": ")[2]
    assert told == ("golden/1.jpg: missing; labels.txt: changed since it was built; golden/mine.jpg: not of this model")


@pytest.fixture
def two_versions(tmp_path):
    """The ids of the older and the newer version of `colours`."""
    return [built(tmp_path).manifest.model_id, built(tmp_path, recipe="stretch").manifest.model_id]


def found(tmp_path, wanted, in_use=None):
    return find_artifact(tmp_path / "models", wanted, in_use).manifest.model_id


def test_a_name_means_the_version_in_use_else_the_newest(tmp_path, two_versions):
    older, newer = two_versions
    assert found(tmp_path, "colours") == newer
    assert found(tmp_path, "colours", {"colours": older, "other": newer}) == older
    with pytest.raises(ModelError, match="colours@00000000, the version in use, is not in") as caught:
        found(tmp_path, "colours", {"colours": "0" * 16})
    assert all(f"`infer model use colours@{model_id[:8]}`" in caught.value.hint for model_id in two_versions)


def test_a_damaged_version_is_found_to_be_removed_and_stops_no_other(tmp_path, two_versions):
    older, newer = two_versions
    folder = tmp_path / "models" / "colours" / newer
    (folder / "manifest.json").write_text("{")
    assert found(tmp_path, "colours", {"colours": older}) == older
    with pytest.raises(ModelError, match="not JSON"):
        find_artifact(tmp_path / "models", "colours")
    with pytest.raises(UsageError, match="2 versions"):
        find_folder(tmp_path / "models", "colours")
    assert find_folder(tmp_path / "models", f"colours@{newer}") == folder
    remove_folder(folder)
    assert found(tmp_path, "colours") == older
    remove_folder(find_folder(tmp_path / "models", "colours"))
    assert list((tmp_path / "models").iterdir()) == []


def test_list_gives_all_models_by_name_the_newest_of_a_name_first(tmp_path):
    one = built(tmp_path, name="b")
    two = built(tmp_path, name="a")
    three = built(tmp_path, name="b", recipe="stretch")
    (two.folder.parent / ".building-x").mkdir()  # a model that is being built is not seen
    assert list_artifacts(tmp_path / "models") == [two, three, one]
    assert list_artifacts(tmp_path / "nothing") == []


def test_an_unknown_name_lists_those_that_exist_or_tells_how_to_build_one(tmp_path):
    with pytest.raises(ModelError, match="has none yet") as caught:
        find_artifact(tmp_path / "models", "pets")
    assert "infer model build" in caught.value.hint
    with pytest.raises(ModelError, match=r"manifest\.json: No such file"):
        open_artifact(tmp_path)
    built(tmp_path, name="pets")
    with pytest.raises(ModelError, match="there are pets") as caught:
        find_artifact(tmp_path / "models", "pest")
    assert caught.value.hint == "did you mean pets?"


@pytest.mark.parametrize("name", ["", ".", "..", "../pets", "a/b", ".hidden", "-x", "a b", "żółw", "a\n", "/etc"])
def test_a_name_that_could_leave_the_folder_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="is not allowed"):
        find_artifact(tmp_path, name)


def test_a_recorded_variant_changes_neither_id_nor_other_files(artifact):
    changed = record_variant(artifact, "cpu-int8", {"tolerance": {"relative": 0.2, "cosine": 0.98}}, {"m.bin": b"12"})
    assert open_artifact(artifact.folder) == changed
    changed.verify()
    assert changed.read("variants/cpu-int8/m.bin") == b"12"
    assert changed.manifest.model_id == artifact.manifest.model_id
    assert set(changed.manifest.variants) == {"cpu-torchscript", "cpu-int8"}
    assert changed.manifest.tolerance_of("cpu-int8").relative == 0.2
    assert changed.manifest.tolerance_of("cpu-torchscript") == artifact.manifest.tolerance


def test_a_variant_recorded_again_replaces_its_files_which_tell_two_builds_of_it_apart(artifact):
    once = record_variant(artifact, "v", {}, {"a": b"1"})
    twice = record_variant(once, "v", {"n": 2}, {"b": b"2"})
    twice.verify()
    (path,) = [path for path in twice.manifest.files if path.startswith("variants/")]
    assert (path.rpartition("/")[2], twice.read(path)) == ("b", b"2")
    again = record_variant(twice, "v", {}, {"b": b"2"})
    assert again.manifest.files == twice.manifest.files
    first, second, third = (one.manifest.variant_sha256("v") for one in (once, twice, again))
    assert first != second == third


def test_a_custom_preprocess_works_from_another_folder_without_its_source(tmp_path, monkeypatch):
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.chdir(user)
    monkeypatch.syspath_prepend(str(user))
    code = "import numpy as np\n\ndef corner(rgb):\n    return np.ascontiguousarray(rgb[:16, :16])\n"
    (user / "my_corner.py").write_text(code)
    folder = built(tmp_path, recipe=None, preprocess="my_corner:corner").folder
    (user / "my_corner.py").unlink()
    monkeypatch.chdir("/")
    monkeypatch.delitem(sys.modules, "my_corner")
    pixels = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    preprocess = open_artifact(folder).preprocess()
    assert preprocess is not None
    np.testing.assert_array_equal(preprocess(pixels), pixels[:16, :16])


def test_a_warning_of_the_users_code_is_shown_once_and_not_for_each_image():
    code = b"import warnings\ndef old(rgb):\n    warnings.warn('old')\n    return rgb\n"
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        old = load_function(code, "old", "old.py")
        assert [old(number) for number in range(3)] == [0, 1, 2]
    assert [str(one.message) for one in shown] == ["old"]


def test_the_users_code_may_run_in_any_thread():
    with ThreadPoolExecutor() as pool:
        same = load_function(b"def same(rgb):\n    return rgb\n", "same", "same.py")
        assert pool.submit(same, 1).result() == 1


@pytest.mark.parametrize("of", ["", "cuda.matmul.", "mkldnn.", "mkldnn.matmul."])
def test_the_users_code_may_set_the_precision_of_torch_in_either_way(of):
    """Beside the newer way torch refuses to tell what the older one has set."""
    code = f"import torch\ndef fast(rgb):\n    torch.backends.{of}fp32_precision = 'tf32'\n    return rgb\n"
    code = code.replace("tf32", "bf16") if "mkldnn" in of else code
    fast, before = load_function(code.encode(), "fast", "fast.py"), precisions()
    assert [fast(number) for number in range(2)] == [0, 1]
    assert precisions() == before


def precisions():
    of_processors = (torch.backends.cuda, torch.backends.mkldnn)
    return [torch.get_float32_matmul_precision(), *(one.matmul.fp32_precision for one in of_processors)]


def test_whoever_the_umask_lets_may_read_the_artifact(artifact):
    os.umask(mask := os.umask(0))
    modes = [path.stat().st_mode & 0o777 for path in (artifact.folder, artifact.folder / "manifest.json")]
    assert modes == [0o777 & ~mask, 0o666 & ~mask]


@pytest.mark.parametrize("dies_in", ["write_file", "save_manifest"])
def test_a_variant_is_replaced_whole_or_not_at_all(artifact, monkeypatch, dies_in):
    """A process that is killed in between leaves the former one, which can be used; the next build replaces it."""
    once = record_variant(artifact, "v", {}, {"a": b"1", "b": b"1"})
    write = artifact_module.write_file

    def die(*given):
        if dies_in == "write_file" and given[1].endswith("/a"):
            return write(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(artifact_module, dies_in, die)
        record_variant(once, "v", {"n": 2}, {"a": b"2", "b": b"2"})
    left = open_artifact(artifact.folder)
    assert left == once
    left.verify()
    assert left.read(left.manifest.find_file("v", "a")) == b"1"
    after = record_variant(left, "v", {"n": 2}, {"a": b"2", "b": b"2"})
    assert [after.read(after.manifest.find_file("v", name)) for name in "ab"] == [b"2", b"2"]


def test_one_process_at_a_time_records_a_variant_and_none_is_lost(artifact, monkeypatch):
    record_variant(artifact, "w", {}, {"a": b"1"})

    def save_locked(folder, manifest):
        with pytest.raises(BlockingIOError):
            lock(folder)
        save_manifest(folder, manifest)

    monkeypatch.setattr(artifact_module, "save_manifest", save_locked)
    assert set(record_variant(artifact, "v", {}, {"a": b"1"}).manifest.variants) == {"cpu-torchscript", "v", "w"}
    lock(artifact.folder)


def lock(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def test_what_was_judged_of_a_variant_that_was_replaced_meanwhile_is_not_recorded(artifact):
    judged = record_variant(artifact, "v", {}, {"a": b"1"})
    replaced = record_variant(judged, "v", {}, {"a": b"2"})
    with pytest.raises(ModelError, match="v was built anew meanwhile"):
        record_variant(judged, "v", {"min_agreement": 0.9})
    assert open_artifact(artifact.folder) == replaced


@pytest.mark.parametrize("place", ["colours/prod", "tulips/{id}"])
def test_a_folder_that_is_not_named_by_its_model_is_refused(artifact, tmp_path, place):
    folder = tmp_path / "models" / place.format(id=artifact.manifest.model_id)
    folder.parent.mkdir(exist_ok=True)
    artifact.folder.rename(folder)
    with pytest.raises(ModelError, match=f"{folder.name} holds colours@{artifact.manifest.model_id}") as caught:
        find_artifact(tmp_path / "models", folder.parent.name)
    assert caught.value.hint == f"move it to {artifact.folder}"
