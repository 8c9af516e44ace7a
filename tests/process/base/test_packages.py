import subprocess

import infer_app
from infer_app.base import packages
from infer_app.base.packages import describe_version


def test_a_clone_tells_its_commit_and_whether_it_was_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "SOURCE", tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a"]
    plain = f"infer_app {infer_app.__version__}"
    assert describe_version() == plain
    for step in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *step], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], text=True).strip()
    assert describe_version() == f"{plain}, commit {commit}"
    (tmp_path / "new").touch()
    subprocess.run([*git, "add", "new"], check=True)
    assert describe_version() == f"{plain}, commit {commit}-dirty"
    monkeypatch.setenv("PATH", "")
    assert describe_version() == plain
