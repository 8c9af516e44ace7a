"""What `infer model check` prints: images by their paths from the folder on, because cameras count alike."""

import pytest

from infer_app.base.domain import ImageRef, Output, Prediction
from infer_app.build.check.check_report import DifferentObject, ObjectComparison
from infer_app.build.check.function_check import compare_answers
from infer_app.cli.commands.model_commands import CheckOptions
from infer_app.cli.model.check import print_check, print_objects

SITES = ["site1/IMG_0017.JPG", "site2/IMG_0017.JPG"]


@pytest.mark.parametrize(("against", "said"), [("my:predict", "your function"), (None, "the model's source")])
def test_images_are_named_from_the_folder_on(tmp_path, capsys, against, said):
    paths = [str(tmp_path / site) for site in SITES]
    ours = [Prediction(ImageRef(path, path), Output(label="owl", score=0.9)) for path in paths]
    report = compare_answers([(paths[0], "dog"), (paths[1], "dog"), ("c.jpg", OSError("no"))], ours)
    print_check(report, CheckOptions(name="birds", images=tmp_path, against=against), "it")
    told = capsys.readouterr().out
    assert [f"│ {site} │" in told for site in SITES] == [True, True]
    assert f"{said} failed on c.jpg: OSError: no" in told
    assert "of your 2 dog, 0 are the same; we have 0 in all" in told
    found = [DifferentObject(path, "ours", "fox", 0.9, (0, 0, 1, 1), 0.0) for path in paths]
    print_objects(ObjectComparison(0.1, 0, 0, 2, 2, None, None, None, tuple(found), ()), tmp_path, 2)
    told = capsys.readouterr().out
    assert [told.count(f"│ {site} │") for site in SITES] == [2, 2]
