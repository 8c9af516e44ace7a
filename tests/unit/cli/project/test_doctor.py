from infer_app.cli.project import doctor
from infer_app.versions import Mismatch


def findings(monkeypatch, *mismatches):
    monkeypatch.setattr(doctor, "find_mismatches", lambda: iter(mismatches))
    return [(one.check, one.found, one.fix, one.exit_code) for one in doctor._versions(None)]


def test_versions_that_are_not_supported_are_named_with_the_command_that_installs_others(monkeypatch):
    torch = Mismatch("torch", "2.15.0", "torch<2.14,>=2.11")
    found = "torch 2.15.0 is untested: torch<2.14,>=2.11 is required"
    assert findings(monkeypatch, torch) == [("versions", found, torch.fix, 0)]
    missing = Mismatch("openvino", None, "openvino>=2026.0")
    found = "openvino is not installed: openvino>=2026.0 is required"
    assert findings(monkeypatch, missing) == [("versions", found, missing.fix, 0)]


def test_versions_that_fit_are_one_line(monkeypatch):
    ((check, found, fix, exit_code),) = findings(monkeypatch)
    assert (check, fix, exit_code) == ("versions", "", 0)
    assert found.startswith("torch ")
    assert found.endswith(": as required")
